package schedule

import (
	"cmp"
	"strconv"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/task"
)

// TaskID is the id of a tick's task. It is always the same, so that a tick has one task. Its time
// is the tick's.
func TaskID(name string, tick time.Time) task.ID {
	tick = tick.UTC()
	var at ulid.ULID
	_ = at.SetTime(uint64(min(max(tick.UnixMilli(), 0), int64(ulid.MaxTime())))) // it is in bounds
	return task.DerivedID(task.ID(at.String()), name+"\x00"+tick.Format(time.RFC3339Nano))
}

// FollowingID is the id of the task of a job that the end of another task makes, or a message. It is always the
// same, too; its time is that of the end or the message.
func FollowingID(job string, by *task.Origin) task.ID {
	return TaskID("on "+job+" "+cmp.Or(by.MadeBy, strconv.FormatUint(by.Ended, 10)), by.Tick) // no schedule has such a name
}
