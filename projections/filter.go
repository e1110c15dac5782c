package projections

import (
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/projections/view"
	"millrace/task"
	"millrace/task/placement"
)

// condition is a part of a WHERE clause, with its arguments.
type condition struct {
	text strings.Builder
	args []any
}

func (c *condition) and(text string, args ...any) {
	if c.text.Len() > 0 {
		c.text.WriteString(" AND ")
	}
	c.text.WriteString(text)
	c.args = append(c.args, args...)
}

// idSlack is how far the time in an id may be from the time of submission.
const idSlack = 24 * time.Hour

// conditions are the conditions of a filter that apply to tasks of every state. In the order of ids
// the newest tasks are found at once, and so are those in a state other than finished, which have
// an index. All others are searched from the newest task on, or the oldest, at 0.3 to 0.5 s per
// million skipped tasks. So a page that most tasks match is found at once, and one that few match
// takes that long. A text is searched only where [Store.Index] or the fold knows of similar text.
// Routes are the routes on which tasks of the filter's queue wait.
func conditions(f *view.Filter, routes []string, after task.ID) *condition {
	c := new(condition)
	if after != "" {
		c.and("id "+f.Beyond()+" ?", string(after))
	}
	if !f.Since.IsZero() {
		c.and("id >= ?", firstID(f.Since.Add(-idSlack)))
	}
	if !f.Until.IsZero() {
		c.and("id < ?", firstID(f.Until.Add(idSlack)))
	}
	for _, is := range []struct {
		said, text, arg string
	}{
		{f.Job, "job = ?", f.Job}, {f.Node, "node = ?", f.Node}, {f.Schedule, "instr(words, ?)", mark(markSchedule, f.Schedule)}, {f.Batch, "instr(words, ?)", mark(markBatch, f.Batch)},
	} {
		if is.said != "" {
			c.and(is.text, is.arg)
		}
	}
	if f.Queue != "" {
		args := make([]any, len(routes))
		for i, route := range routes {
			args[i] = route
		}
		c.and("queue IN ("+repeat("?", len(args))+")", args...)
	}
	if f.Roots {
		c.and("ifnull(instr(words, ?), 0) = 0", anyMark(markParent))
	}
	if _, err := task.ParseID(f.IDPart); err == nil { // it is a whole one
		c.and("id = ?", f.IDPart)
	} else if f.IDPart != "" {
		c.and("(id >= ? AND id < ? OR substr(id, ?) = ?)", f.IDPart, f.IDPart+"~", -len(f.IDPart), f.IDPart)
	}
	for k, v := range f.Labels {
		c.and("instr(words, ?)", mark(markLabel, labelMark(k, v)))
	}
	if len(f.Priorities) > 0 {
		ways := make([]string, len(f.Priorities))
		args := make([]any, len(f.Priorities))
		for i, p := range f.Priorities {
			if ways[i], args[i] = "instr(words, ?)", mark(markPriority, strconv.Itoa(p)); p == placement.DefaultPriority {
				ways[i], args[i] = "ifnull(instr(words, ?), 0) = 0", anyMark(markPriority)
			}
		}
		c.and("("+strings.Join(ways, " OR ")+")", args...)
	}
	if part := plainPart(f.Text); part != "" {
		pattern := "%" + part + "%"
		c.and("(words LIKE ? OR id LIKE ? OR job LIKE ?)", pattern, pattern, pattern)
	}
	return c
}

func order(f *view.Filter) string {
	if f.OldestFirst {
		return "ORDER BY id"
	}
	return "ORDER BY id DESC"
}

// firstID is the least id of a time.
func firstID(t time.Time) string {
	var id ulid.ULID
	ms := min(max(t.UnixMilli(), 0), int64(ulid.MaxTime()))
	_ = id.SetTime(uint64(ms)) // it is in bounds
	return id.String()
}

// plainPart is the longest part of a text without a special meaning in LIKE.
func plainPart(text string) string {
	longest := ""
	for _, part := range strings.FieldsFunc(text, func(r rune) bool {
		return r < ' ' || r > '~' || r == '%' || r == '_'
	}) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}
