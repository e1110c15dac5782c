package pages

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events/jet/rights"
	"millrace/internal/metrics"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/quota"
	"millrace/task/schedule"
)

var overviewPage = page{name: "overview", path: "/{$}", entry: "Overview", verb: rights.TaskList, show: showOverview, inFiles: true}

// Bounds of what the overview shows of each.
const (
	shownRunning  = 20
	shownOverdue  = 8
	shownQueuesOf = 8  // without a worker
	amongOverdue  = 50 // of those whose deadline passed first, with no slack
	shownFailed   = 8
	shownNext     = 8
	shownChanges  = 8
	shownFields   = 8 // of a change
)

type overviewData struct {
	Counts  countsPanel
	Queues  unservedPanel
	Running runningPanel
	Overdue overduePanel
	Failed  tasksPanel
	Nodes   nodesPanel
	Next    nextPanel
	Plots   plotsPanel
	Changes changesPanel
}

// Summary names the first changed fields, and how many others there are.
func (c *changeRow) Summary() string {
	const named = 3
	var names []string
	for i := range c.Changes[:min(len(c.Changes), named)] {
		names = append(names, c.Changes[i].Field)
	}
	text := strings.Join(names, ", ")
	if more := len(c.Changes) + c.More - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// changesPanel has what people have changed last.
type changesPanel struct {
	panel
	Rows []changeRow
}

// changeRow is a change, and how many of its fields are not shown.
type changeRow struct {
	factRow
	Changes []view.Change
	More    int
}

// unservedPanel has the queues with tasks that no node takes.
type unservedPanel struct {
	panel
	Rows []client.QueueView
	// Nodes are those for which alone tasks wait.
	Nodes []client.UnservedNode
	More  int
}

func (p *unservedPanel) find(ctx context.Context, l *look) error {
	page, err := client.QueuesOf(ctx, l.View, l.Sums, &client.QueueListRequest{}, l.Now, func(string) *quota.CounterState { return nil })
	p.Rows = slices.DeleteFunc(page.Queues, func(q client.QueueView) bool { return q.Unserved == nil })
	queues, nodes := min(len(p.Rows), shownQueuesOf), min(len(page.UnservedNodes), shownQueuesOf)
	p.More = len(p.Rows) - queues + len(page.UnservedNodes) - nodes
	p.Rows, p.Nodes = p.Rows[:queues], page.UnservedNodes[:nodes]
	return err
}

// plotsPanel has the latest counts; empty for the past, which was not counted.
type plotsPanel struct {
	Points []metrics.Point
	// Oldest is since when the longest-waiting pending task has been pending.
	Oldest time.Time
}

type countsPanel struct {
	panel
	States []stateCount
	All    int
}

// stateCount is how many tasks are in a state.
type stateCount struct {
	State task.State
	N     int
}

type runningPanel struct {
	panel
	Rows []runningRow
	More bool
}

// runningRow is a running task, with its progress and who must act next.
type runningRow struct {
	task.Task
	Live    *output.Live
	Whole   *client.Whole
	Suspect *node.Doubt
	Duty    duties.Duty
	Overdue bool
	// Usual is how long similar tasks usually take; Long tells whether it has taken a tenth longer
	// than nearly all of them.
	Usual figures
	Long  bool
}

// overduePanel has tasks whose deadline has passed. A page of the past has none.
type overduePanel struct {
	panel
	Rows []overdueRow
	More bool
}

type overdueRow struct {
	task.Task
	Duty duties.Duty
}

type tasksPanel struct {
	panel
	Tasks []task.Task
}

// nodesPanel has nodes that are not ready, or silent.
type nodesPanel struct {
	panel
	All     int
	Trouble []client.NodeView
}

type nextPanel struct {
	panel
	Ticks []schedule.Upcoming
}

func showOverview(ctx context.Context, l *look) (any, error) {
	d := &overviewData{}
	d.Counts.fail(d.Counts.find(ctx, l))
	d.Queues.fail(d.Queues.find(ctx, l))
	d.Running.fail(d.Running.find(ctx, l))
	d.Overdue.fail(d.Overdue.find(ctx, l))
	d.Failed.fail(d.Failed.find(ctx, l))
	d.Nodes.fail(d.Nodes.find(ctx, l))
	d.Next.fail(d.Next.find(ctx, l))
	d.Changes.fail(d.Changes.find(ctx, l))
	if !l.Past {
		d.Plots.Points = l.site.late.Points(l.Now)
		var err error
		if d.Plots.Oldest, err = oldestOf(ctx, l.Sums); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// find finds the tasks that failed last.
func (p *tasksPanel) find(ctx context.Context, l *look) (err error) {
	if log, ok := l.Sums.(answers.Tracer); ok {
		p.Tasks, err = log.LastFailed(ctx, shownFailed)
	}
	return err
}

func (p *overduePanel) find(ctx context.Context, l *look) error {
	if l.Past {
		return nil
	}
	tasks, err := l.Overdue(ctx, amongOverdue)
	for i := range tasks {
		duty, err := view.Owed(ctx, l.View, &tasks[i], l.Rules)
		if err != nil {
			return err
		}
		if !duty.Overdue(l.Now) {
			continue
		}
		if p.More = len(p.Rows) == shownOverdue; p.More {
			break
		}
		p.Rows = append(p.Rows, overdueRow{tasks[i], duty})
	}
	return err
}

// oldestOf is since when the task has been pending that has waited longest; the zero time if none waits.
func oldestOf(ctx context.Context, sums view.Summed) (oldest time.Time, err error) {
	queues, err := sums.Oldest(ctx)
	for _, since := range queues {
		if oldest.IsZero() || since.Before(oldest) {
			oldest = since
		}
	}
	return oldest, err
}

// usualKey is a job, or a step of one, at a moment of the past, which does not change, or in a while of
// the present.
type usualKey struct {
	job, step string
	root      bool // it has no parent
	seq       uint64
	while     time.Time
}

// What usual looks at.
const (
	usualOf  = 50 // tasks
	usualFor = 30 * time.Second
)

// usual returns how long tasks like one take: of the same job, or step of it, by the latest finished
// ones; zero if that cannot be found out.
func (l *look) usual(ctx context.Context, t *task.Task) (is figures) {
	if t.Job == "" {
		return is
	}
	key := usualKey{job: t.Job, step: stepOf(t), root: t.Parent == ""}
	if l.Past {
		key.seq = l.Point.Seq
	} else {
		key.while = l.Now.Truncate(usualFor)
	}
	find := func() (figures, error) {
		runs, err := runsAs(ctx, l.View, key)
		return figuresOf(runs), err
	}
	if l.file != nil { // its log is another one
		is, _ = find()
	} else {
		is, _ = l.site.usual.get(key, find)
	}
	return is
}

// runsAs are the latest finished tasks like those of a key.
func runsAs(ctx context.Context, v view.View, key usualKey) (runs []view.Run, err error) {
	f := view.Filter{Job: key.job, Roots: key.root, States: []task.State{task.Finished}, Limit: usualOf}
	if key.root && key.step == "" {
		return view.Runs(ctx, v, f)
	}
	page, err := v.List(ctx, view.Query{Kind: view.Tasks, Filter: f})
	for i := range page.Tasks {
		if like := &page.Tasks[i]; stepOf(like) == key.step && (like.Parent == "") == key.root {
			runs = append(runs, view.RunOf(like))
		}
	}
	return runs, err
}

// stepOf returns the name of a task's step, the same for all values of a list.
func stepOf(t *task.Task) string {
	name, _, _ := strings.Cut(t.Step, "/")
	return name
}

func (p *countsPanel) find(ctx context.Context, l *look) error {
	counts, err := l.Count(ctx, view.Query{Kind: view.Tasks})
	states := counts.States()
	for _, s := range task.States() {
		p.States = append(p.States, stateCount{s, states[s]})
	}
	p.All = counts.All()
	return err
}

func (p *runningPanel) find(ctx context.Context, l *look) error {
	page, err := l.tasks(ctx, client.ListRequest{Filter: view.Filter{States: []task.State{task.Running, task.Cancelling}, Limit: shownRunning}, Progress: true})
	if err != nil {
		return err
	}
	p.More = page.Next != ""
	for i := range page.Tasks {
		t := page.Tasks[i]
		row := runningRow{Task: t, Live: page.Live[t.ID], Whole: page.Wholes[t.ID], Suspect: page.Suspects[t.ID]}
		if row.Duty, err = view.Owed(ctx, l.View, &t, l.Rules); err != nil {
			return err
		}
		row.Overdue = row.Duty.Overdue(l.Now)
		row.Usual = l.usual(ctx, &t)
		row.Long = row.Usual.N > 0 && !t.StartedAt.IsZero() && l.Now.Sub(t.StartedAt) > row.Usual.P95+row.Usual.P95/10
		p.Rows = append(p.Rows, row)
	}
	slices.SortStableFunc(p.Rows, func(a, b runningRow) int { return cmp.Compare(overdueFirst(&a), overdueFirst(&b)) })
	return nil
}

func overdueFirst(r *runningRow) int {
	if r.Overdue || r.Suspect != nil {
		return 0
	}
	return 1
}

// tasks returns a page of tasks, in the present with what only the present knows.
func (l *look) tasks(ctx context.Context, r client.ListRequest) (page client.ListPage, err error) {
	if err := r.Read(l.Now); err != nil {
		return page, err
	}
	if !l.Past {
		return page, l.ask(ctx, rights.TaskList, r, &page)
	}
	if r.Text != "" && l.file == nil {
		return page, client.ErrPastText
	}
	return client.PastPageOf(ctx, l.View, r.Filter, &r)
}

func (p *nodesPanel) find(ctx context.Context, l *look) error {
	page, err := client.NodesOf(ctx, l.View, l.Sums, l.Now, l.Rules.Node, &client.NodeListRequest{})
	p.All = len(page.Nodes)
	for _, n := range page.Nodes {
		if n.State != node.Ready && n.State != node.Retired || n.Silent {
			p.Trouble = append(p.Trouble, n)
		}
	}
	return err
}

func (p *nextPanel) find(ctx context.Context, l *look) error {
	stored, err := client.SchedulesOf(ctx, l.View)
	for i := range stored {
		row := client.NewScheduleRow(stored[i], nil, l.Now, nil, l.Now)
		if row.Next != nil {
			p.Ticks = append(p.Ticks, schedule.Upcoming{Name: stored[i].Name, Tick: *row.Next})
		}
	}
	slices.SortFunc(p.Ticks, func(a, b schedule.Upcoming) int { return a.Due.Compare(b.Due) })
	p.Ticks = p.Ticks[:min(len(p.Ticks), shownNext)]
	return err
}

// altered returns what users have changed last on a thing. That is remembered as of its latest change,
// if that determines the earlier ones.
func (l *look) altered(ctx context.Context, thing view.Thing) ([]view.Alteration, error) {
	find := func() ([]view.Alteration, error) { return view.Alterations(ctx, l.View, thing.Ref, shownChanges) }
	if l.file != nil || l.Past && thing.Kind == view.Nodes {
		return find()
	}
	return l.site.altered.get(thing, find)
}

func (p *changesPanel) find(ctx context.Context, l *look) error {
	things, err := view.Changeable(ctx, l.View, shownChanges)
	if err != nil {
		return err
	}
	var all []view.Alteration
	for _, thing := range things {
		of, err := l.altered(ctx, thing)
		if err != nil {
			return err
		}
		all = append(all, of...)
	}
	slices.SortFunc(all, func(a, b view.Alteration) int { return cmp.Compare(b.Seq, a.Seq) })
	for i := range all[:min(len(all), shownChanges)] {
		a := &all[i]
		shown := min(len(a.Changes), shownFields)
		p.Rows = append(p.Rows, changeRow{factRowOf(&a.Record), a.Changes[:shown], len(a.Changes) - shown})
	}
	return nil
}
