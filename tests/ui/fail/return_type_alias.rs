use lock_runtime::distributed_lock;

type Answer = Result<u64, std::io::Error>;

#[distributed_lock(key = "order:{id}")]
async fn pay(id: u64) -> Answer {
    Ok(id)
}

fn main() {}
