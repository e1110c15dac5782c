package view

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"millrace/task"
)

// Bounds of [Filter.Limit].
const (
	DefaultLimit = 50
	MaxLimit     = 1000
)

// ErrCursor refuses a cursor that did not come from a page of the same order.
var ErrCursor = errors.New("the cursor is not valid: start from the first page")

// Filter chooses tasks, in the order of their ids; a task must meet all that is set.
type Filter struct {
	// States are the states it may be in. Default: any.
	States []task.State
	// Dead chooses dead letters: tasks that their surroundings ended and that nobody
	// has dismissed. States has no meaning then.
	Dead bool
	// Suspect, if set, chooses of the tasks that run on a node or wait for one alone those
	// of which it says so; others it is not asked about.
	Suspect func(*task.Task) bool
	// Job, Node and Queue are exact. Node is who runs or last ran the task; what waits for
	// certain nodes of a queue is the queue's, too.
	Job, Node, Queue string
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

// OnlyQueue tells whether the filter chooses all tasks of a queue, or all tasks if that is "".
func (f *Filter) OnlyQueue() (queue string, only bool) {
	rest := *f
	rest.Queue, rest.Limit, rest.Cursor, rest.After, rest.OldestFirst = "", 0, "", "", false
	return f.Queue, reflect.ValueOf(rest).IsZero()
}

// Match tells whether a task meets the filter, wherever the page begins.
func (f *Filter) Match(t *task.Task) bool {
	return t.State != task.Unknown && f.matchState(t) && f.matchWork(t) && f.matchText(t)
}

func (f *Filter) matchState(t *task.Task) bool {
	switch {
	case f.Dead && !t.Dead():
	case !f.Dead && len(f.States) > 0 && !slices.Contains(f.States, t.State):
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
		return true
	}
	return false
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

// Texts is what people search of a task beside its id.
func Texts(t *task.Task) [4]string { return [...]string{t.Job, t.Step, t.Message, t.Spec.Text()} }

// Lower turns the letters of ASCII into lower case, and no others.
func Lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// Beyond is the relation of an id to one that comes before it.
func (f *Filter) Beyond() string {
	if f.OldestFirst {
		return ">"
	}
	return "<"
}

// CursorAfter is the cursor of a page that ends with a task: the order, and its id.
func (f *Filter) CursorAfter(last task.ID) string {
	return base64.RawURLEncoding.EncodeToString([]byte(f.Beyond() + string(last)))
}

// Start is the id after which the page begins, "" for none. The error wraps [ErrCursor] if the cursor is none.
func (f *Filter) Start() (task.ID, error) {
	if f.Cursor == "" {
		return f.After, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(f.Cursor)
	if err != nil {
		return "", wrong{ErrCursor}
	}
	id, ok := strings.CutPrefix(string(text), f.Beyond())
	if !ok || id == "" {
		return "", wrong{ErrCursor}
	}
	return task.ID(id), nil
}

// Most is how many the page holds. The error wraps [ErrQuery] if Limit is out of bounds.
func (f *Filter) Most() (int, error) {
	switch {
	case f.Limit == 0:
		return DefaultLimit, nil
	case f.Limit < 0 || f.Limit > MaxLimit:
		return 0, wrong{fmt.Errorf("limit is %d, want 1 to %d", f.Limit, MaxLimit)}
	}
	return f.Limit, nil
}

// Cut makes a page of the first tasks behind its start, of which there may be one more than it holds.
func (f *Filter) Cut(found []task.Task, most int) (page []task.Task, next string) {
	if len(found) <= most {
		return found, ""
	}
	return found[:most], f.CursorAfter(found[most-1].ID)
}
