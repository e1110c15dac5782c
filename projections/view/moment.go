package view

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/task"
)

// End names the end of the log.
const End = "end"

// ParseMoment parses a place in the log: a sequence (1048211 or #1048211), how long ago (-10m or 10m), a
// time, whose missing zone is that of now and whose missing date makes it the latest such time that has passed, or [End] or "" for the end of the log. Times are
// in the zone of now. Whether the log has reached it, [view.Moment.Reached] tells.
func ParseMoment(text string, now time.Time) (m Moment, err error) {
	if text == "" || text == End {
		return m, nil
	}
	if seq, bad := strconv.ParseUint(strings.TrimPrefix(text, "#"), 10, 64); bad == nil {
		if seq == 0 {
			return m, errors.New("sequences begin with 1")
		}
		return Moment{Seq: seq}, nil
	}
	at, err := ParsePast(strings.TrimPrefix(text, "-"), now)
	if errors.Is(err, errImpossible) {
		return m, err
	}
	if err != nil || strings.HasPrefix(text, "+") {
		return m, fmt.Errorf("%q is no moment: want a sequence of the log: 1048211, so long ago: -10m or -7d, a time: 2026-03-01T12:00:00Z, \"2026-03-01 12:00\" or 12:00, or %s", text, End)
	}
	return Moment{At: at.In(now.Location())}, nil
}

// Twofold tells whether a text is a sequence and may be a part of a task's id as well: ids have parts
// of digits alone.
func Twofold(text string) bool {
	_, part := task.Part(text)
	return part && strings.Trim(text, "0123456789") == ""
}

// Unclear refuses a [Twofold] text that is a part of a task's id, if the log has reached the sequence
// as well. The error says how to tell them apart.
func Unclear(text string, of task.ID, reached bool) error {
	if !reached {
		return nil
	}
	return fmt.Errorf("%q is the sequence of a fact and a part of task %s: write #%s, or more of the id", text, of, text)
}
