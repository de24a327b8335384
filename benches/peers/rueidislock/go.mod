module rueidislock

go 1.26.0

require (
	driver v0.0.0
	github.com/redis/rueidis v1.0.79
)

require golang.org/x/sys v0.48.0 // indirect

replace driver => ../go-driver
