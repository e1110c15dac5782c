package view

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/value"
)

// Bounds of [Filter.Limit].
const (
	DefaultLimit = 50
	MaxLimit     = 1000
)

// ErrCursor refuses a cursor that did not come from a page of the same order.
var ErrCursor = errors.New("the cursor is not valid: start from the first page")

// Filter selects tasks, in the order of their ids. A task must match all fields that are set.
type Filter struct {
	// States are the allowed states. Default: any.
	States []task.State
	// Dead selects dead letters that were not dismissed: [task.Task.Dead].
	Dead bool
	// Suspect, if set, selects among the tasks that run on a node or wait for a single one: those
	// for which it returns true.
	Suspect func(*task.Task) bool
	// Job, Node and Queue are exact. Node is the node that runs the task or ran it last. A task
	// that waits for certain nodes of a queue belongs to the queue, too.
	Job, Node, Queue string
	// Schedule is the schedule that made the task.
	Schedule string
	// Roots leaves out the tasks that have a parent.
	Roots bool
	// IDPart is the beginning or the end of the task's id, in upper case.
	IDPart string
	// Labels must all be present with these values.
	Labels map[string]string
	// Params are parameters that must all be there with these values, as people type them: see
	// [HasParam].
	Params map[string]string
	// Priorities are the allowed priorities. Default: any.
	Priorities []int
	// Batch is the last bulk command that changed the task.
	Batch string
	// Since and Until bound the time of submission: Since is inclusive, Until exclusive. A task
	// whose id names a time more than a day from its submission may be missed.
	Since, Until time.Time
	// Text occurs in the task's id, job, step, message, or command: not in a script of a job, which
	// would match for all tasks of the job. ASCII letters match in either case.
	Text string
	// Limit is the size of a page. Default [DefaultLimit], at most [MaxLimit].
	Limit int
	// Cursor continues after a page, with its Next. The next page neither repeats nor omits a task
	// that existed before, however many are added meanwhile.
	Cursor string
	// After is the last task of the page before; it has the same effect as Cursor.
	After task.ID
	// OldestFirst reverses the order; by default the newest id comes first.
	OldestFirst bool
}

// OnlyQueue tells whether the filter selects all tasks of a queue, or all tasks if queue is "".
func (f *Filter) OnlyQueue() (queue string, only bool) {
	rest := *f
	rest.Queue, rest.Limit, rest.Cursor, rest.After, rest.OldestFirst = "", 0, "", "", false
	return f.Queue, reflect.ValueOf(rest).IsZero()
}

// Match tells whether a task matches the filter, regardless of pages.
func (f *Filter) Match(t *task.Task) bool {
	return t.State != task.Unknown && f.matchState(t) && f.matchWork(t) && f.matchText(t)
}

func (f *Filter) matchState(t *task.Task) bool {
	switch {
	case f.Dead && !t.Dead():
	case len(f.States) > 0 && !slices.Contains(f.States, t.State):
	case f.Suspect != nil && !(t.State == task.Pending || t.Live()):
	case f.Suspect != nil && !f.Suspect(t):
	case f.Node != "" && t.Node != f.Node:
	default:
		return true
	}
	return false
}

func (f *Filter) matchWork(t *task.Task) bool {
	switch {
	case !f.Since.IsZero() && t.SubmittedAt.Before(f.Since), !f.Until.IsZero() && !t.SubmittedAt.Before(f.Until):
	case f.Job != "" && t.Job != f.Job, f.Schedule != "" && t.Schedule != f.Schedule, f.Batch != "" && t.Batch != f.Batch:
	case f.Queue != "" && t.Route.Queue() != f.Queue && t.QueueName() != f.Queue:
	case f.Roots && t.Parent != "":
	case !strings.HasPrefix(string(t.ID), f.IDPart) && !strings.HasSuffix(string(t.ID), f.IDPart):
	case len(f.Priorities) > 0 && !slices.Contains(f.Priorities, t.Route.Priority()):
	default:
		for k, v := range f.Labels {
			if have, ok := t.Labels[k]; !ok || have != v {
				return false
			}
		}
		for name, value := range f.Params {
			if !HasParam(t.Params, name, value) {
				return false
			}
		}
		return true
	}
	return false
}

// HasParam tells whether parameters have a value under a name. A text is typed as it is, anything else as JSON:
// equal numbers are equal in any spelling. Dots in the name lead into objects, unless a parameter has that name.
func HasParam(params json.RawMessage, name, typed string) bool {
	var all map[string]json.RawMessage
	if json.Unmarshal(params, &all) != nil {
		return false
	}
	is, there := all[name]
	if !there {
		first, rest, dotted := strings.Cut(name, ".")
		return dotted && HasParam(all[first], rest, typed)
	}
	var text string
	if json.Unmarshal(is, &text) == nil && string(is) != "null" {
		return text == typed
	}
	return json.Valid([]byte(typed)) && value.Same(is, json.RawMessage(typed))
}

func (f *Filter) matchText(t *task.Task) bool {
	if f.Text == "" {
		return true
	}
	texts := Texts(t)
	return slices.ContainsFunc(append(texts[:], string(t.ID)), func(s string) bool {
		return strings.Contains(Lower(s), Lower(f.Text))
	})
}

// Texts returns the searchable texts of a task besides its id.
func Texts(t *task.Task) [4]string { return [...]string{t.Job, t.Step, t.Message, CommandText(t)} }

// CommandText returns the command of a task as far as it is searchable: a script of a job is not.
func CommandText(t *task.Task) string {
	if t.Job != "" && t.Spec != nil && t.Spec.Run != nil && t.Spec.Run.Shell != "" {
		return ""
	}
	return t.Spec.Text()
}

// Lower turns ASCII letters into lower case, and no others.
func Lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// Beyond returns the operator, < or >, that compares the id of a later item in the order of the
// filter with that of an earlier one.
func (f *Filter) Beyond() string {
	if f.OldestFirst {
		return ">"
	}
	return "<"
}

// CursorAfter is the cursor of a page that ends with a task: the order, and the task's id.
func (f *Filter) CursorAfter(last task.ID) string {
	return cursorAfter(f.Beyond(), string(last))
}

func cursorAfter(beyond, last string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(beyond + last))
}

// Start is the id after which the page begins, "" for none. The error wraps [ErrCursor] if the
// cursor is invalid.
func (f *Filter) Start() (task.ID, error) {
	if f.Cursor == "" {
		return f.After, nil
	}
	id, err := lastIn(f.Beyond(), f.Cursor)
	return task.ID(id), err
}

// lastIn is what a cursor comes after.
func lastIn(beyond, cursor string) (string, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", wrong{ErrCursor}
	}
	last, ok := strings.CutPrefix(string(text), beyond)
	if !ok || last == "" {
		return "", wrong{ErrCursor}
	}
	return last, nil
}

// Section returns the page of a whole list, in the order of its keys: at most limit items, all for
// 0, after a cursor; and the cursor of the next page, "" if this is the last. The error wraps
// [ErrCursor] if the cursor is invalid.
func Section[T any](all []T, key func(*T) string, limit int, cursor string) (page []T, next string, err error) {
	if cursor != "" {
		last, err := lastIn(">", cursor)
		if err != nil {
			return nil, "", err
		}
		all = all[sort.Search(len(all), func(i int) bool { return key(&all[i]) > last }):]
	}
	if limit == 0 || len(all) <= limit {
		return all, "", nil
	}
	return all[:limit], CursorAfter(key(&all[limit-1])), nil
}

// CursorAfter is the cursor of a [Section] that ends with a key.
func CursorAfter(last string) string { return cursorAfter(">", last) }

// Most is the size of the page. The error wraps [ErrQuery] if Limit is out of bounds.
func (f *Filter) Most() (int, error) {
	switch {
	case f.Limit == 0:
		return DefaultLimit, nil
	case f.Limit < 0 || f.Limit > MaxLimit:
		return 0, wrong{fmt.Errorf("limit is %d, want 1 to %d", f.Limit, MaxLimit)}
	}
	return f.Limit, nil
}

// Validate refuses bounds and cursors that are invalid. The error wraps [ErrQuery].
func (f *Filter) Validate() error {
	if _, err := f.Most(); err != nil {
		return err
	}
	_, err := f.Start()
	return err
}

// Cut makes a page of the first tasks found, of which there may be one more than it holds.
func (f *Filter) Cut(found []task.Task, most int) (page []task.Task, next string) {
	if len(found) <= most {
		return found, ""
	}
	return found[:most], f.CursorAfter(found[most-1].ID)
}
