package schedule

import (
	"crypto/sha256"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/task"
)

// TaskID is the id of a tick's task: the same wherever and however often it is
// asked for, so that a tick has one task. Its time is the tick's.
func TaskID(name string, tick time.Time) task.ID {
	tick = tick.UTC()
	sum := sha256.Sum256([]byte(name + "\x00" + tick.Format(time.RFC3339Nano)))
	var id ulid.ULID
	copy(id[6:], sum[:])
	_ = id.SetTime(uint64(min(max(tick.UnixMilli(), 0), int64(ulid.MaxTime())))) // it is in bounds
	return task.ID(id.String())
}
