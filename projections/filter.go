package projections

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/task"
)

// Bounds of [Filter.Limit].
const (
	DefaultLimit = 50
	MaxLimit     = 1000
)

// ErrCursor refuses a cursor that did not come from a page of the same order.
var ErrCursor = errors.New("the cursor is not valid: start from the first page")

// Filter chooses tasks; a task must meet all that is set.
//
// In the order of ids the newest tasks come at once, and so do those in a state
// other than finished, for those have an index. Everything else is looked for
// from the newest task on, or the oldest, at 0.3 to 0.5 s per million tasks passed over. So a page of
// what most tasks meet comes at once, and one of what few meet takes that long. A
// text is looked for only where [Store.Index] or the fold knows of the like.
type Filter struct {
	// States are the states it may be in. Default: any.
	States []task.State
	// Dead chooses dead letters: tasks that their surroundings ended and that nobody
	// has dismissed. States has no meaning then.
	Dead bool
	// Suspect, if set, chooses of the tasks that run on a node or wait for one alone those
	// of which it says so; others it is not asked about.
	Suspect func(*task.Task) bool
	// Job, Node and Queue are exact. Node is who runs or last ran the task.
	Job, Node, Queue string
	// Routes are those of selectors that choose among the nodes of Queue: what waits there is the queue's, too.
	Routes []string
	// Schedule is which one made the task.
	Schedule string
	// Roots leaves out the tasks that have a parent.
	Roots bool
	// IDPart is the beginning or the end of the task's id, in upper case.
	IDPart string
	// Labels must all be there with these values.
	Labels map[string]string
	// Priorities are those that it may have. Default: any.
	Priorities []int
	// Batch is the bulk command that touched the task last.
	Batch string
	// Since and Until bound the time of submission: Since itself is in, Until is
	// not. A task whose id names a time more than a day from its submission may be missed.
	Since, Until time.Time
	// Text is part of the task's id, job, step, command or message. Letters of ASCII
	// match in either case.
	Text string
	// Limit is how many tasks a page holds. Default [DefaultLimit], at most [MaxLimit].
	Limit int
	// Cursor continues after a page, as its Next says. The page after it neither
	// repeats nor leaves out a task that was there before, however many come meanwhile.
	Cursor string
	// After is the last task of the page before; it does what Cursor does.
	After task.ID
	// OldestFirst turns the order round; by default the newest id comes first.
	OldestFirst bool
}

// Page is a part of a list of tasks.
type Page struct {
	Tasks []task.Task
	// Next is the cursor of the next page, "" if this is the last.
	Next string
	// Seq is the sequence that the page reflects.
	Seq uint64
}

// matches decides what the query could not, or only roughly.
func (f *Filter) matches(t *task.Task) bool {
	if !f.Since.IsZero() && t.SubmittedAt.Before(f.Since) || !f.Until.IsZero() && !t.SubmittedAt.Before(f.Until) {
		return false
	}
	if f.Schedule != "" && t.Schedule != f.Schedule {
		return false
	}
	if f.Roots && t.Parent != "" {
		return false
	}
	if f.Dead && !t.Dead() {
		return false
	}
	if f.Suspect != nil && !f.Suspect(t) {
		return false
	}
	if f.Batch != "" && t.Batch != f.Batch {
		return false
	}
	if len(f.Priorities) > 0 && !slices.Contains(f.Priorities, t.Route.Priority()) {
		return false
	}
	for k, v := range f.Labels {
		if have, ok := t.Labels[k]; !ok || have != v {
			return false
		}
	}
	if f.Text == "" {
		return true
	}
	texts := textsOf(t)
	return slices.ContainsFunc(append(texts[:], string(t.ID)), func(s string) bool {
		return strings.Contains(lower(s), lower(f.Text))
	})
}

// lower turns the letters of ASCII into lower case, as LIKE does.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

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

// idSlack is how far the time in an id may be from that of the submission.
const idSlack = 24 * time.Hour

// conditions are those that hold for tasks of every state.
func (f *Filter) conditions(after string) *condition {
	c := new(condition)
	if after != "" {
		c.and("id "+f.beyond()+" ?", after)
	}
	if !f.Since.IsZero() {
		c.and("id >= ?", firstID(f.Since.Add(-idSlack)))
	}
	if !f.Until.IsZero() {
		c.and("id < ?", firstID(f.Until.Add(idSlack)))
	}
	if f.Job != "" {
		c.and("job = ?", f.Job)
	}
	if f.Node != "" {
		c.and("node = ?", f.Node)
	}
	if f.Queue != "" {
		args := []any{f.Queue}
		for _, route := range f.Routes {
			args = append(args, route)
		}
		c.and("queue IN ("+repeat("?", len(args))+")", args...)
	}
	if f.Schedule != "" {
		c.and("instr(words, ?)", mark(markSchedule, f.Schedule))
	}
	if f.Roots {
		c.and("ifnull(instr(words, ?), 0) = 0", anyMark(markParent))
	}
	if f.IDPart != "" {
		c.and("(id >= ? AND id < ? OR substr(id, ?) = ?)", f.IDPart, f.IDPart+"~", -len(f.IDPart), f.IDPart)
	}
	for k, v := range f.Labels {
		c.and("instr(words, ?)", mark(markLabel, labelMark(k, v)))
	}
	if len(f.Priorities) > 0 {
		ways := make([]string, len(f.Priorities))
		args := make([]any, len(f.Priorities))
		for i, p := range f.Priorities {
			if ways[i], args[i] = "instr(words, ?)", mark(markPriority, strconv.Itoa(p)); p == task.DefaultPriority {
				ways[i], args[i] = "ifnull(instr(words, ?), 0) = 0", anyMark(markPriority)
			}
		}
		c.and("("+strings.Join(ways, " OR ")+")", args...)
	}
	if f.Batch != "" {
		c.and("instr(words, ?)", mark(markBatch, f.Batch))
	}
	if part := plainPart(f.Text); part != "" {
		pattern := "%" + part + "%"
		c.and("(words LIKE ? OR id LIKE ? OR job LIKE ?)", pattern, pattern, pattern)
	}
	return c
}

// beyond is the relation of an id to one that comes before it.
func (f *Filter) beyond() string {
	if f.OldestFirst {
		return ">"
	}
	return "<"
}

func (f *Filter) order() string {
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

// plainPart is the longest part of a text that means nothing but itself to LIKE.
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

// CursorAfter is the cursor of a page that ends with a task: the order, and its id.
func (f *Filter) CursorAfter(last task.ID) string {
	return base64.RawURLEncoding.EncodeToString([]byte(f.beyond() + string(last)))
}

// after is the id that the cursor names, "" for no cursor.
func (f *Filter) after() (string, error) {
	if f.Cursor == "" {
		return string(f.After), nil
	}
	text, err := base64.RawURLEncoding.DecodeString(f.Cursor)
	if err != nil {
		return "", ErrCursor
	}
	id, ok := strings.CutPrefix(string(text), f.beyond())
	if !ok || id == "" {
		return "", ErrCursor
	}
	return id, nil
}

func (f *Filter) limit() (int, error) {
	switch {
	case f.Limit == 0:
		return DefaultLimit, nil
	case f.Limit < 0 || f.Limit > MaxLimit:
		return 0, fmt.Errorf("limit is %d, want 1 to %d", f.Limit, MaxLimit)
	}
	return f.Limit, nil
}
