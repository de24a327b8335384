use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
