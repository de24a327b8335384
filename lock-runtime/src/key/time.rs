//! Dates and times in lock names: one value has one text, whichever crate's type it has.
//!
//! Moments are written in UTC, as RFC 3339 has them, with as many digits of a second as they need. Years outside of 0 to
//! 9999 have a sign.

#[allow(clippy::disallowed_types)] // A value of the caller; nothing is decided by it.
use std::time::{SystemTime, UNIX_EPOCH};

use super::part::{KeyPart, KeyPartWriter};

const SECOND: i128 = 1_000_000_000;
const DAY: i128 = 86_400;

#[allow(clippy::disallowed_types)]
impl KeyPart for SystemTime {
    fn write_key_part(&self, out: &mut KeyPartWriter<'_>) {
        let nanos = match self.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_nanos().try_into().unwrap_or(i128::MAX),
            Err(before) => {
                before.duration().as_nanos().try_into().map_or(i128::MIN, |nanos: i128| -nanos)
            }
        };
        write_moment(out, nanos);
    }
}

/// Writes a moment, in nanoseconds since the beginning of 1970.
fn write_moment(out: &mut KeyPartWriter<'_>, nanos: i128) {
    let (seconds, nanos) = (nanos.div_euclid(SECOND), nanos.rem_euclid(SECOND));
    let (days, second) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
    let (year, month, day) = date(days);
    write_date(out, year, month, day);
    out.write_str("T");
    write_time(out, second / 3600, second / 60 % 60, second % 60, nanos);
    out.write_str("Z");
}

/// Returns the date of a day, counted from the first of 1970.
fn date(days: i128) -> (i128, i128, i128) {
    // Years begin in March here, so that a leap day is the last of its year; 400 years have 146 097 days.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i128::from(month <= 2), month, day)
}

fn write_date(
    out: &mut KeyPartWriter<'_>,
    year: impl Into<i128>,
    month: impl Into<i128>,
    day: impl Into<i128>,
) {
    let (year, month, day) = (year.into(), month.into(), day.into());
    match year {
        0..=9999 => out.write_display(format_args!("{year:04}-{month:02}-{day:02}")),
        _ => out.write_display(format_args!("{year:+05}-{month:02}-{day:02}")),
    }
}

fn write_time(
    out: &mut KeyPartWriter<'_>,
    hour: impl Into<i128>,
    minute: impl Into<i128>,
    second: impl Into<i128>,
    nanos: impl Into<i128>,
) {
    let (hour, minute, second) = (hour.into(), minute.into(), second.into());
    out.write_display(format_args!("{hour:02}:{minute:02}:{second:02}"));
    let nanos = nanos.into();
    if nanos > 0 {
        let digits = format!("{nanos:09}");
        out.write_str(".");
        out.write_str(digits.trim_end_matches('0'));
    }
}

/// Implements `KeyPart` for a crate's types, each by the parts that it writes.
#[cfg(any(feature = "chrono-04", feature = "jiff-02", feature = "time-03"))]
macro_rules! written {
    ($($ty:ty $(where $param:ident: $bound:path)?, $out:ident, $value:ident => $write:block)*) => {$(
        impl $(<$param: $bound>)? KeyPart for $ty {
            fn write_key_part(&self, $out: &mut KeyPartWriter<'_>) {
                let $value = self;
                $write
            }
        }
    )*};
}

#[cfg(feature = "chrono-04")]
mod chrono_04 {
    use chrono::{
        DateTime, Datelike as _, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Timelike as _,
    };

    use super::{KeyPart, KeyPartWriter, SECOND, write_date, write_time};

    written! {
        NaiveDate, out, date => { write_date(out, date.year(), date.month(), date.day()) }
        NaiveTime, out, time => {
            // A leap second is the second before it with more than all nanoseconds.
            let nanos = i128::from(time.nanosecond());
            let second = i128::from(time.second()) + nanos / SECOND;
            write_time(out, time.hour(), time.minute(), second, nanos % SECOND);
        }
        NaiveDateTime, out, time => {
            time.date().write_key_part(out);
            out.write_str("T");
            time.time().write_key_part(out);
        }
        DateTime<Tz> where Tz: TimeZone, out, time => {
            time.naive_utc().write_key_part(out);
            out.write_str("Z");
        }
    }
}

#[cfg(feature = "jiff-02")]
mod jiff_02 {
    use jiff::civil::{Date, DateTime, Time};
    use jiff::{Timestamp, Zoned};

    use super::{KeyPart, KeyPartWriter, write_date, write_moment, write_time};

    written! {
        Date, out, date => { write_date(out, date.year(), date.month(), date.day()) }
        Time, out, time => {
            write_time(out, time.hour(), time.minute(), time.second(), time.subsec_nanosecond());
        }
        DateTime, out, time => {
            time.date().write_key_part(out);
            out.write_str("T");
            time.time().write_key_part(out);
        }
        Timestamp, out, time => { write_moment(out, time.as_nanosecond()) }
        Zoned, out, time => { time.timestamp().write_key_part(out) }
    }
}

#[cfg(feature = "time-03")]
mod time_03 {
    use time::{Date, OffsetDateTime, PrimitiveDateTime, Time, UtcDateTime};

    use super::{KeyPart, KeyPartWriter, write_date, write_moment, write_time};

    written! {
        Date, out, date => { write_date(out, date.year(), u8::from(date.month()), date.day()) }
        Time, out, time => {
            write_time(out, time.hour(), time.minute(), time.second(), time.nanosecond());
        }
        PrimitiveDateTime, out, time => {
            time.date().write_key_part(out);
            out.write_str("T");
            time.time().write_key_part(out);
        }
        OffsetDateTime, out, time => { write_moment(out, time.unix_timestamp_nanos()) }
        UtcDateTime, out, time => { write_moment(out, time.unix_timestamp_nanos()) }
    }
}

#[cfg(all(test, feature = "chrono-04", feature = "jiff-02", feature = "time-03"))]
#[allow(clippy::disallowed_types, clippy::unwrap_used, reason = "a test that cannot go on panics")]
mod tests {
    use std::time::Duration;

    use jiff::tz::{Offset, TimeZone};
    use proptest::prelude::*;

    use super::*;
    use crate::LockKey;

    fn raw(part: &(impl KeyPart + ?Sized)) -> String {
        LockKey::builder().raw(part).build().unwrap().to_string()
    }

    fn escaped(part: &(impl KeyPart + ?Sized)) -> String {
        LockKey::builder().part(part).build().unwrap().to_string()
    }

    fn system(nanos: i128) -> SystemTime {
        let apart = Duration::from_nanos_u128(nanos.unsigned_abs());
        if nanos < 0 { UNIX_EPOCH - apart } else { UNIX_EPOCH + apart }
    }

    /// The same moment in every type that has it, in three offsets.
    fn spellings(nanos: i128) -> Vec<String> {
        let (second, nano) = (nanos.div_euclid(SECOND), nanos.rem_euclid(SECOND));
        let (second, nano) = (i64::try_from(second).unwrap(), u32::try_from(nano).unwrap());
        let of_chrono = chrono::DateTime::from_timestamp(second, nano).unwrap();
        let of_jiff = jiff::Timestamp::from_nanosecond(nanos).unwrap();
        let of_time = time::OffsetDateTime::from_unix_timestamp_nanos(nanos).unwrap();
        let mut all = vec![
            raw(&system(nanos)),
            raw(&of_chrono),
            raw(&of_jiff),
            raw(&of_time),
            raw(&time::UtcDateTime::from_unix_timestamp_nanos(nanos).unwrap()),
        ];
        for hours in [-5, 2] {
            let offset = chrono::FixedOffset::east_opt(hours * 3600).unwrap();
            all.push(raw(&of_chrono.with_timezone(&offset)));
            let zone = TimeZone::fixed(Offset::from_hours(hours.try_into().unwrap()).unwrap());
            all.push(raw(&of_jiff.to_zoned(zone)));
            let offset = time::UtcOffset::from_hms(hours.try_into().unwrap(), 0, 0).unwrap();
            all.push(raw(&of_time.to_offset(offset)));
        }
        all
    }

    #[test]
    fn moments_are_written_in_utc() {
        for (nanos, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1969-12-31T23:59:59.999999999Z"),
            (951_782_400 * SECOND, "2000-02-29T00:00:00Z"),
            (1_795_895_700 * SECOND + 500_000_000, "2026-11-28T19:55:00.5Z"),
            (1_795_895_700 * SECOND + 1_000, "2026-11-28T19:55:00.000001Z"),
            (-62_167_219_200 * SECOND, "0000-01-01T00:00:00Z"),
            (-62_167_219_201 * SECOND, "-0001-12-31T23:59:59Z"),
        ] {
            assert_eq!(spellings(nanos), vec![text; 11], "{nanos}");
        }
        // Only this one has such years.
        assert_eq!(raw(&system(253_402_300_800 * SECOND)), "+10000-01-01T00:00:00Z");
        assert_eq!(escaped(&UNIX_EPOCH), "1970-01-01T00%3A00%3A00Z");
    }

    #[test]
    fn dates_and_times_of_day_are_written_alike() {
        let dates: [&dyn KeyPart; 3] = [
            &chrono::NaiveDate::from_ymd_opt(2026, 1, 2).unwrap(),
            &jiff::civil::date(2026, 1, 2),
            &time::Date::from_calendar_date(2026, time::Month::January, 2).unwrap(),
        ];
        assert_eq!(dates.map(escaped), ["2026-01-02"; 3]);
        let times: [&dyn KeyPart; 3] = [
            &chrono::NaiveTime::from_hms_milli_opt(3, 4, 5, 60).unwrap(),
            &jiff::civil::time(3, 4, 5, 60_000_000),
            &time::Time::from_hms_milli(3, 4, 5, 60).unwrap(),
        ];
        assert_eq!(times.map(raw), ["03:04:05.06"; 3]);
        let both: [&dyn KeyPart; 3] = [
            &chrono::NaiveDate::from_ymd_opt(2026, 1, 2).unwrap().and_hms_opt(3, 4, 5).unwrap(),
            &jiff::civil::date(2026, 1, 2).at(3, 4, 5, 0),
            &time::PrimitiveDateTime::new(
                time::Date::from_calendar_date(2026, time::Month::January, 2).unwrap(),
                time::Time::from_hms(3, 4, 5).unwrap(),
            ),
        ];
        assert_eq!(both.map(raw), ["2026-01-02T03:04:05"; 3]);
    }

    /// A leap second is neither the second before it nor the one after it.
    #[test]
    fn leap_seconds_have_a_text_of_their_own() {
        let last = chrono::NaiveDate::from_ymd_opt(2016, 12, 31).unwrap();
        let leap = last.and_hms_milli_opt(23, 59, 59, 1_250).unwrap().and_utc();
        assert_eq!(raw(&leap), "2016-12-31T23:59:60.25Z");
    }

    proptest! {
        #[test]
        fn a_moment_has_one_text(nanos in -62_000_000_000 * SECOND..250_000_000_000 * SECOND) {
            let all = spellings(nanos);
            prop_assert!(all.iter().all(|text| *text == all[0]), "{all:?}");
            let back: jiff::Timestamp = all[0].parse().unwrap();
            prop_assert_eq!(back.as_nanosecond(), nanos);
        }
    }
}
