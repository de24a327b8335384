/// Rows of `name(parameters) [arguments]`: functions that do nothing, under an attribute with these arguments.
macro_rules! annotated {
    ($($name:ident($($parameters:tt)*) [$($arguments:tt)*])*) => {$(
        #[distributed_lock($($arguments)*)]
        async fn $name($($parameters)*) -> Result<(), LockError> {
            Ok(())
        }
    )*};
}
