//! Count-down latches.
// S-30.

use super::{Change, Name, Number, Value, no_lock};
use crate::error::{StoreError, StoreErrorKind};
use crate::store::{LatchRequest, Target};

impl Name {
    pub(super) fn latch(
        &mut self,
        target: &Target,
        request: LatchRequest,
        change: &mut Change,
    ) -> Result<u64, StoreError> {
        let number = self.number()?;
        if number.is_some_and(|number| number.until.is_some()) {
            let message = "the key holds the free permits of a semaphore";
            return Err(StoreError::new(StoreErrorKind::WrongType, message));
        }
        if let LatchRequest::SetCount(count) = request {
            if self.value.is_some() {
                return Ok(0);
            }
            let number = Number { count: i64::from(count), until: None };
            self.value = Some(Value::Number(number));
            change.notify(target.channel());
            return Ok(1);
        }
        let Some(number) = self.number()? else { return Ok(0) };
        match request {
            LatchRequest::Count => return Ok(u64::try_from(number.count).unwrap_or(0)),
            LatchRequest::CountDown => {
                number.count = number.count.saturating_sub(1);
                if let Ok(left @ 1..) = u64::try_from(number.count) {
                    return Ok(left);
                }
            }
            LatchRequest::Remove | LatchRequest::SetCount(_) => {}
        }
        self.value = None;
        change.notify(target.channel());
        Ok(u64::from(request == LatchRequest::Remove))
    }

    pub(super) fn number(&mut self) -> Result<Option<&mut Number>, StoreError> {
        match &mut self.value {
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(Value::Hash(_)) => Err(no_lock()),
            None => Ok(None),
        }
    }
}
