package quota

import (
	"millrace/task"
	"time"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// onlyLimit is what holds a task that nothing but its limits holds.
var onlyLimit = []string{task.HoldLimit}
