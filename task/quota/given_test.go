package quota

import (
	"millrace/task"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// onlyLimit is the hold of a task that only its limits hold.
var onlyLimit = []string{task.HoldLimit}
