package view

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
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

// Filter selects tasks, in the order of their ids. A task must match all fields that are set; [Fields]
// has more about them. A task whose id names a time more than a day from its submission may be missed by
// Since and Until. The next page neither repeats nor omits a task that existed before, however many are
// added meanwhile.
type Filter struct {
	// States are those that a task may be in. Default: any.
	States []task.State `json:"states,omitempty"`
	// Dead chooses dead letters that were not dismissed: abnormal tasks, and those in error whose
	// retries are used up. States narrows it to one kind.
	Dead bool `json:"dead,omitempty"`
	// Approval chooses tasks that wait for an approval now: a signal from outside.
	Approval bool `json:"approval,omitempty"`
	// Doubted chooses tasks on doubtful nodes: those that run on a node that has vanished or is
	// late with its heartbeat, or that wait for such a node alone.
	Doubted bool `json:"suspect,omitempty"`
	// Job and Queue are those of the task. Node runs the task, or ran it last.
	Job   string `json:"job,omitempty"`
	Node  string `json:"node,omitempty"`
	Queue string `json:"queue,omitempty"`
	// Schedule is the schedule that made the task.
	Schedule string `json:"schedule,omitempty"`
	// Step is the name of the task in its parent: that of a step.
	Step string `json:"step,omitempty"`
	// Roots leaves out the tasks that have a parent: steps, values of a list, and those on several
	// nodes.
	Roots bool `json:"roots,omitempty"`
	// IDPart is a part of the task's: at least [task.MinPart] characters from its beginning or its end.
	IDPart string `json:"id,omitempty"`
	// Labels must all be there with these values.
	Labels map[string]string `json:"labels,omitempty"`
	// Params are parameters that must all be there with these values: texts as they are, anything else as JSON.
	Params map[string]string `json:"params,omitempty"`
	// Results are parts of the result that must all be there with these values, as Params.
	Results map[string]string `json:"results,omitempty"`
	// Records are values of one record that the latest attempt has reported, all of them, as Params. They
	// are read for each page, of at most 500 tasks; no model knows them.
	Records map[string]string `json:"records,omitempty"`
	// Priorities are the priorities it may have: larger means more urgent. Default: any.
	Priorities []int `json:"priorities,omitempty"`
	// Batch is the bulk command that last changed the task.
	Batch string `json:"batch,omitempty"`
	// Since and Until bound the time of submission.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Text must be part of the id, the job's name, the command or the message, ignoring case.
	Text string `json:"text,omitempty"`
	// Limit is how many tasks a page has: 1 to 1000, default 50. A page has fewer if they would not
	// fit into one message; then Next continues.
	Limit int `json:"limit,omitempty"`
	// Cursor is the Next of the previous page.
	Cursor string `json:"cursor,omitempty"`
	// After is the last task of the previous page; it does what Cursor does.
	After task.ID `json:"after,omitempty"`
	// OldestFirst reverses the order; by default the newest come first.
	OldestFirst bool `json:"oldest_first,omitempty"`
	// Suspect, if set, tells which of the tasks that run on a node, or wait for a single one, are
	// chosen: that is how Doubted is answered.
	Suspect func(*task.Task) bool `json:"-"`
}

// OnlyQueue tells whether the filter selects all tasks of a queue, or all tasks if queue is "".
func (f *Filter) OnlyQueue() (queue string, only bool) {
	return f.Queue, f.Suspect == nil && !f.Sets(func(k *Field) bool { return k.Name != "Queue" })
}

// HasParts tells whether JSON has all values under their names.
func HasParts(of json.RawMessage, all map[string]string) bool {
	for name, typed := range all {
		if !HasParam(of, name, typed) {
			return false
		}
	}
	return true
}

// HasParam tells whether parameters, or a result, have a value under a name. A text is typed as it is, anything else as JSON:
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
