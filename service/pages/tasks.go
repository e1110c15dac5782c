package pages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/events/jet/rights"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/value"
)

var tasksPage = page{name: "tasks", path: "/tasks", entry: "Tasks", verb: rights.TaskList, show: showTasks, inFiles: true}

// taskTabs are the states by which tasks are shown, and the query term for each.
var taskTabs = []struct {
	Name, State string
	of          []task.State
}{
	{"all", "", task.States()},
	{"scheduled", "scheduled", []task.State{task.Scheduled}},
	{"held", "held", []task.State{task.Held}},
	{"pending", "pending", []task.State{task.Pending}},
	{"running", "running,cancelling", []task.State{task.Running, task.Cancelling}},
	{"retrying", "retrying", []task.State{task.Retrying}},
	{"finished", "finished", []task.State{task.Finished}},
	{"error", "error", []task.State{task.Error}},
	{"abnormal", "abnormal", []task.State{task.Abnormal}},
	{"cancelled", "cancelled", []task.State{task.Cancelled}},
}

// taskList is a list of tasks that a query chooses, with the commands for many of them.
type taskList struct {
	list[wording.TaskRow]
	// Query is the typed query, and WrongQuery what is wrong with it.
	Query      string
	WrongQuery string
	Keys       []struct{ Name, Example string }
	Next       string
	First      bool
	// Searched is of how many tasks the records were read.
	Searched int
	// Lines are the rows as they are drawn, and Folds tells whether one stands for several.
	Lines []wording.Line
	Folds bool
	// Acts are the commands for many of them, and Whole is the query that chooses all.
	Acts  []bulkAct
	Whole string
}

// find finds the tasks that the query in the address chooses among some. Noun is that of the page; without shown it
// shows the usual columns.
func (d *taskList) find(ctx context.Context, l *look, noun string, of view.Filter, shown []string) {
	d.Query, d.Keys, d.First = l.Asked("q"), view.QueryKeys, l.Asked("cursor") == ""
	if d.Whole = d.Query; of.Dead {
		d.Whole = view.WithTerm(d.Query, "is", "dead")
	}
	for _, act := range bulkActs(noun) {
		if l.Acts(string(act.Verb)) {
			d.Acts = append(d.Acts, act)
		}
	}
	of.Cursor = l.Asked("cursor")
	page, err := l.tasks(ctx, client.ListRequest{Query: d.Query, Filter: of, Progress: true})
	var wrong *view.WrongTerm
	if errors.As(err, &wrong) {
		d.WrongQuery, err = wrong.Error(), nil
	}
	d.fail(err)
	d.Rows, d.Next, d.Searched = taskRows(&page), page.Next, page.Searched
	l.Still = d.Searched > 0
	asked, _ := view.ParseFilter(d.Query, l.Now)
	d.Lines = wording.Lines(d.Rows, noun == "tasks" && asked.Schedule == "" && asked.Job == "" && l.Asked("fold") != "none")
	d.Folds = slices.ContainsFunc(d.Lines, func(t wording.Line) bool { return t.Runs != nil })
	if shown == nil {
		shown = usualColumns
		if slices.ContainsFunc(d.Lines, func(t wording.Line) bool { return t.Row != nil && len(t.Row.Params) > 0 }) {
			shown = slices.Insert(slices.Clone(shown), slices.Index(shown, "why"), "params")
		}
	}
	d.columns = term.Choose(columnsOf(l.Now), shown...)
}

// Across is how many cells a row has.
func (d *taskList) Across() int {
	if len(d.Acts) > 0 {
		return len(d.columns) + 2
	}
	return len(d.columns)
}

// One are the commands for a task of the list, of those that its state allows.
func (d *taskList) One(t task.Task) (all []bulkAct) {
	if t.State == task.Finished { // commands for many leave it out
		return nil
	}
	for _, act := range d.Acts {
		if e := offeredBy(rights.Verb("task." + act.Do)); e != nil && (e.Button.Has == nil || e.Button.Has(&t)) {
			all = append(all, act)
		}
	}
	return all
}

// facet is what a key of queries may be, with how many tasks there are of each value.
type facet struct {
	Key, Of string
	Values  []tab
}

// latestKey is the time of the latest tasks that are looked at as a whole, which is done once in latestFor.
type latestKey struct {
	at  string
	now time.Time
}

const latestFor = 10 * time.Second

// shownValues is how many values a facet has.
const shownValues = 8

// facet makes that of a key from numbers of tasks: the most frequent values first.
func (d *tasksData) facet(l *look, key, of string, numbers map[string]int) {
	delete(numbers, "")
	names := slices.SortedFunc(maps.Keys(numbers), func(a, b string) int {
		return cmp.Or(cmp.Compare(numbers[b], numbers[a]), cmp.Compare(a, b))
	})
	f := facet{Key: key, Of: of}
	for _, name := range names[:min(len(names), shownValues)] {
		is := view.Term(name)
		q, here := view.WithTerm(d.Query, key, is), slices.Contains(strings.Fields(d.Query), key+":"+is)
		if here {
			q = view.WithTerm(d.Query, key, "")
		}
		f.Values = append(f.Values, tab{name, l.Here("q", q, "cursor", ""), numbers[name], here})
	}
	if len(f.Values) > 0 && d.WrongQuery == "" {
		d.Facets = append(d.Facets, f)
	}
}

type tasksData struct {
	taskList
	Tabs   []tab
	Facets []facet
	All    []string
	// Nothing tells whether there are no tasks at all.
	Nothing bool
}

// Shows tells whether a column is shown.
func (d *tasksData) Shows(name string) bool {
	return slices.ContainsFunc(d.Heads(), func(c cell) bool { return c.Name == name })
}

// tab leads to the tasks of a state. Its number counts all tasks, whatever else the query asks for.
type tab struct {
	Name, Link string
	N          int
	Here       bool
}

func showTasks(ctx context.Context, l *look) (any, error) {
	if id, ok := jump(l.Asked("q")); ok {
		return nil, l.elsewhere("/tasks/" + id)
	}
	d := &tasksData{}
	for _, c := range columnsOf(l.Now) {
		d.All = append(d.All, c.Called())
	}
	d.find(ctx, l, "tasks", view.Filter{}, shownColumns(l.query["col"]))
	counts, err := l.Count(ctx, view.Query{Kind: view.Tasks})
	if d.Wrong == nil {
		d.fail(err)
	}
	states := counts.States()
	asked, _ := view.ParseFilter(d.Query, l.Now)
	for _, t := range taskTabs {
		n := 0
		for _, s := range t.of {
			n += states[s]
		}
		q := view.WithTerm(d.Query, "state", t.State)
		here := slices.Equal(asked.States, t.of) || t.State == "" && asked.States == nil
		d.Tabs = append(d.Tabs, tab{t.Name, l.Here("q", q, "cursor", ""), n, here && d.WrongQuery == ""})
	}
	d.Nothing = counts.All() == 0
	queues, jobs := map[string]int{}, map[string]int{}
	for queue, of := range counts.Of {
		for s, n := range of {
			if asked.States == nil || slices.Contains(asked.States, s) {
				queues[queue] += n
			}
		}
	}
	latest, err := l.site.latest.get(latestKey{l.inFile() + " " + l.At, l.Now.Truncate(latestFor)}, func() ([]view.Run, error) {
		return view.Runs(ctx, l.View, view.Filter{Limit: countedRuns})
	})
	if d.Wrong == nil {
		d.fail(err)
	}
	for i := range latest {
		if asked.States == nil || slices.Contains(asked.States, latest[i].State) {
			jobs[latest[i].Job]++
		}
	}
	d.facet(l, "job", "of the latest "+count(countedRuns), jobs)
	d.facet(l, "queue", "", queues)
	return d, nil
}

// taskRows returns tasks with their remarks.
func taskRows(page *client.ListPage) (rows []wording.TaskRow) {
	for i := range page.Tasks {
		t := &page.Tasks[i]
		row := wording.TaskRowOf(page, t)
		switch {
		case t.State == task.Held:
			row.Says = heldFor(t)
		case row.Says != "":
		case !t.State.Terminal() && t.Message == "" && !t.Live():
			row.Says = wording.Brief(t)
		default:
			row.Says = wording.Said(t)
		}
		rows = append(rows, row)
	}
	return rows
}

// heldFor says what a held task waits for.
func heldFor(t *task.Task) string {
	switch {
	case slices.Contains(t.Holds, task.HoldNeeds) && t.Needs != nil:
		return "waits for " + t.Needs.String()
	case slices.Contains(t.Holds, task.HoldSignal) && t.Spec.Monitors():
		return "waits for a ping"
	case slices.Contains(t.Holds, task.HoldSignal):
		return "waits for a signal"
	case t.Throttled:
		return "waits for the rate of queue " + t.QueueName()
	case slices.Contains(t.Holds, task.HoldLimit):
		return "waits for a free place under its limits"
	}
	return cmp.Or(t.Message, wording.Brief(t))
}

// jump is the task that a query names by its whole id alone.
func jump(text string) (id string, ok bool) {
	is, err := task.ParseID(strings.ToUpper(strings.TrimSpace(text)))
	return string(is), err == nil
}

// known returns the existing names, for completing a query: those of jobs and schedules, and of
// queues, nodes and labels of the latest tasks. It leaves out what cannot be read.
func (l *look) known(ctx context.Context) view.KnownNames {
	known := view.KnownNames{Values: map[string][]string{}}
	add := func(key, name string) {
		if name != "" {
			known.Values[key] = append(known.Values[key], name)
		}
	}
	jobs, _ := client.JobsOf(ctx, l.View)
	for i := range jobs {
		add("job", jobs[i].Name)
	}
	schedules, _ := client.SchedulesOf(ctx, l.View)
	for i := range schedules {
		add("schedule", schedules[i].Name)
	}
	nodes, _ := l.List(ctx, view.Query{Kind: view.Nodes})
	for i := range nodes.Nodes {
		add("node", string(nodes.Nodes[i].ID))
	}
	latest, _ := l.List(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Limit: countedRuns}})
	for i := range latest.Tasks {
		t := &latest.Tasks[i]
		add("job", t.Job)
		add("queue", t.QueueName())
		add("node", t.Node)
		add("batch", t.Batch)
		for name, value := range t.Labels {
			add("label", name+"="+value)
		}
		for key, of := range map[string]json.RawMessage{"param": t.Params, "result": t.Result} {
			var parts map[string]json.RawMessage
			_ = json.Unmarshal(of, &parts) // without any there are no names
			for name := range parts {
				add(key, name)
			}
		}
	}
	for key, names := range known.Values {
		slices.Sort(names)
		known.Values[key] = slices.Compact(names)
	}
	return known
}

// complete returns what the word at the cursor of the query bar may become.
func (l *look) complete(w http.ResponseWriter) error {
	text := l.Asked("q")
	cursor, err := strconv.Atoi(l.Asked("cursor"))
	if err != nil {
		cursor = len(text)
	}
	var all []view.Suggestion
	err = l.see(l.r.Context(), func(ctx context.Context) error {
		all = view.CompleteQuery(text, cursor, l.known(ctx))
		return nil
	})
	body, bad := value.JSON(append([]view.Suggestion{}, all...))
	if err = errors.Join(err, bad); err == nil {
		l.site.server.Send(w, l.r, "application/json", body)
	}
	return err
}

var deadPage = page{name: "dead", path: "/dead", entry: "Dead letters", verb: rights.DeadList, show: showDead, inFiles: true}

// shownMessages is how many messages the page of dead letters shows.
const shownMessages = 50

type deadData struct {
	taskList
	Messages messagesPanel
}

type messagesPanel struct {
	list[client.Unreadable]
	// Next is the Before of the next page; 0 if this is the last.
	Next uint64
}

func showDead(ctx context.Context, l *look) (any, error) {
	d := &deadData{}
	d.find(ctx, l, "dead", view.Filter{Dead: true}, []string{"id", "what", "why", "next step", "attempt", "node", "since"})
	d.Messages.find(ctx, l)
	return d, nil
}

// nextOfDead says who must act on a dead letter, by the reason for it. No process acts on it: that
// makes it a dead letter.
func nextOfDead(t task.Task) string {
	switch t.Reason {
	case value.Unplaced:
		return "an operator: start a node that may run it, and retry it; or drop it"
	case value.Expired:
		return "an operator: see why nothing took it in time, and retry it; or drop it"
	case value.Poison:
		return "who wrote it: find out how it takes nodes down; an operator retries it then, or drops it"
	}
	return "an operator: retry it, or drop it"
}

func (p *messagesPanel) find(ctx context.Context, l *look) {
	before, _ := strconv.ParseUint(l.Asked("before"), 10, 64) // not a number means the latest
	found, err := l.List(ctx, view.Query{Kind: view.Messages, Before: before, Filter: view.Filter{Limit: shownMessages}})
	p.fail(err)
	for _, m := range found.Messages {
		p.Rows = append(p.Rows, client.Unreadable(m))
	}
	p.columns = term.Choose(wording.MessageColumns, "message", "subject", "why", "first bytes")
	if l.Acts(string(rights.DeadDismiss)) {
		p.columns = append(p.columns, term.Column[client.Unreadable]{Title: "ACTIONS"})
	}
	if n := len(p.Rows); n == shownMessages {
		p.Next = p.Rows[n-1].Seq
	}
}

// Dismissing are the buttons of a message that cannot be read.
func (l *look) Dismissing(seq uint64) []button {
	return l.buttons("messages", strconv.FormatUint(seq, 10), nil)
}
