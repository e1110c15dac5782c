package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events/jet/rights"
	"millrace/internal/cli/wording"
	"millrace/internal/metrics"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/schedule"
)

var overviewPage = page{name: "overview", path: "/{$}", entry: "Overview", verb: rights.TaskList, show: showOverview, inFiles: true}

// Bounds of what the overview shows of each.
const (
	shownRunning = 20
	shownFailed  = 8 // causes
	shownNext    = 8
	shownChanges = 8
	shownFields  = 8 // of a change
)

type overviewData struct {
	Counts  countsPanel
	Needs   needsPanel
	Running table[runningRow]
	Failed  failedPanel
	// Nodes are those that are not ready, or silent.
	Nodes table[client.NodeView]
	Next  table[schedule.Upcoming]
	Plots plotsPanel
	// Changes are what people have changed last.
	Changes table[changeRow]
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

// changeRow is a change, and how many of its fields are not shown.
type changeRow struct {
	factRow
	Changes []view.Change
	More    int
}

// needsPanel has what goes on only when a person acts.
type needsPanel struct{ table[client.Matter] }

// All is how many there are.
func (p *needsPanel) All() int { return len(p.Rows) + p.More }

// failedPanel has the failures of the last day, those of one cause in one row.
type failedPanel struct {
	table[client.FailureGroup]
	// Partly tells that there were more failures than were counted.
	Partly bool
}

func (p *failedPanel) set(all []client.FailureGroup, partly bool, err error) {
	p.Partly = partly
	p.table.set(all, err).cut(shownFailed)
}

// Name names what a matter is about.
func (l *look) Name(m *client.Matter) string { return wording.MatterName(m) }

// Flat is the cause of a failure in one line.
func (l *look) Flat(f *client.FailureGroup) string { return view.Flat(f.Cause) }

// Where is the page about a matter.
func (l *look) Where(m *client.Matter) string {
	switch m.Kind {
	case client.MatterNode:
		return l.Link("nodes", m.ID)
	case client.MatterBreaker, client.MatterTrigger:
		return l.Link("jobs", m.ID)
	case client.MatterUnserved, client.MatterPaused:
		return l.LinkWith("tasks", "q", "state:pending queue:"+m.ID)
	case client.MatterSchedule:
		return l.Link("schedules", m.ID)
	case client.MatterDead, client.MatterUnread:
		return l.Link("dead")
	case client.MatterHeldFront:
		return l.Link("events")
	}
	return l.Link("tasks", m.ID)
}

// plotsPanel has the latest counts; empty for the past, which was not counted.
type plotsPanel struct {
	Points []metrics.Point
	// Oldest is since when the longest-waiting pending task has been pending.
	Oldest time.Time
}

// countsPanel has how many tasks are in each state.
type countsPanel struct {
	panel
	*view.Counts
	// Since is when the log begins: what it has forgotten is not counted.
	Since time.Time
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

func showOverview(ctx context.Context, l *look) (any, error) {
	d := &overviewData{}
	counts, err := l.Count(ctx, view.Query{Kind: view.Tasks})
	d.Counts.Counts = &counts
	d.Counts.fail(err)
	d.Counts.Since = l.site.begins(ctx, l.Log, time.Time{})
	needs := l.needs(ctx)
	d.Needs.set(needs.Matters, needs.needsErr)
	d.Needs.More = needs.More
	d.Failed.set(needs.Failures, needs.Partly, nil)
	if n := d.Needs.All(); n > 0 && !l.Past {
		l.Title = fmt.Sprintf("(%d) %s", n, l.Title)
	}
	d.Running.set(l.running(ctx)).cut(shownRunning)
	d.Nodes.set(needs.nodes, needs.nodesErr)
	d.Nodes.More = needs.fine
	d.Next.set(needs.next, needs.nextErr).cut(shownNext)
	d.Changes.set(l.changed(ctx))
	if !l.Past {
		d.Plots.Points = l.site.late.Points(l.Now)
		if d.Plots.Oldest, err = oldestOf(ctx, l.Sums); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// needsKey is a moment of the past, or the end of the log in a while of the present: deadlines pass, and
// heartbeats stop, without a message.
type needsKey struct {
	seq   uint64
	while time.Time
}

const needsFor = 2 * time.Second

// found is what of the page takes the longest to find out, and is the same for all who look at it.
type found struct {
	client.Attention
	needsErr error
	next     []schedule.Upcoming
	nextErr  error
	nodes    []client.NodeView // those to be shown
	nodesErr error
	fine     int // how many others there are
}

// needs is what needs a person, what comes next, and the nodes. It is remembered if nothing of it fails.
func (l *look) needs(ctx context.Context) found {
	find := func() (is found, err error) {
		is.Attention, is.needsErr = l.Attention(ctx)
		is.next, is.nextErr = l.next(ctx)
		page, err := l.nodes(ctx)
		is.nodes, is.nodesErr = page.Nodes, err
		is.nodes = slices.DeleteFunc(is.nodes, func(n client.NodeView) bool { return (n.State == node.Ready || n.State == node.Retired) && !n.Silent })
		is.fine = len(page.Nodes) - len(is.nodes)
		return is, errors.Join(is.needsErr, is.nextErr, is.nodesErr)
	}
	at, err := l.View.Point(ctx)
	if err != nil || l.file != nil { // its log is another one
		is, _ := find()
		return is
	}
	key := needsKey{seq: at.Seq}
	if !l.Past {
		key.while = l.Now.Truncate(needsFor)
	}
	is, _ := l.site.needs.get(key, find)
	return is
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
	usualOf    = 50 // tasks
	leastUsual = 5  // of fewer nobody knows what is usual
	usualFor   = 30 * time.Second
)

// exceeded tells whether a task has run a tenth longer than nearly all of its like.
func (f *figures) exceeded(ran time.Duration) bool {
	return f.N >= leastUsual && ran > f.P95+f.P95/10
}

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

// running are tasks that run, those that are overdue or in doubt first.
func (l *look) running(ctx context.Context) (rows []runningRow, err error) {
	page, err := l.tasks(ctx, client.ListRequest{Filter: view.Filter{States: []task.State{task.Running, task.Cancelling}, Limit: shownRunning + 1}, Progress: true})
	for i := range page.Tasks {
		t := page.Tasks[i]
		row := runningRow{Task: t, Live: page.Live[t.ID], Whole: page.Wholes[t.ID], Suspect: page.Suspects[t.ID]}
		if row.Duty, err = view.Owed(ctx, l.View, &t, l.Rules); err != nil {
			return nil, err
		}
		row.Overdue = row.Duty.Overdue(l.Now)
		row.Usual = l.usual(ctx, &t)
		row.Long = !t.StartedAt.IsZero() && row.Usual.exceeded(l.Now.Sub(t.StartedAt))
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, func(a, b runningRow) int { return cmp.Compare(overdueFirst(&a), overdueFirst(&b)) })
	return rows, err
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

// next are the next ticks of schedules.
func (l *look) next(ctx context.Context) (ticks []schedule.Upcoming, err error) {
	stored, err := client.SchedulesOf(ctx, l.View)
	for i := range stored {
		row := client.NewScheduleRow(stored[i], nil, l.Now, nil, l.Now)
		if row.Next != nil {
			ticks = append(ticks, schedule.Upcoming{Name: stored[i].Name, Tick: *row.Next})
		}
	}
	slices.SortFunc(ticks, func(a, b schedule.Upcoming) int { return a.Due.Compare(b.Due) })
	return ticks, err
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

// changed is what people have changed last.
func (l *look) changed(ctx context.Context) (rows []changeRow, err error) {
	things, err := view.Changeable(ctx, l.View, shownChanges)
	if err != nil {
		return nil, err
	}
	var all []view.Alteration
	for _, thing := range things {
		of, err := l.altered(ctx, thing)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	slices.SortFunc(all, func(a, b view.Alteration) int { return cmp.Compare(b.Seq, a.Seq) })
	for i := range all[:min(len(all), shownChanges)] {
		a := &all[i]
		shown := min(len(a.Changes), shownFields)
		rows = append(rows, changeRow{factRowOf(&a.Record), a.Changes[:shown], len(a.Changes) - shown})
	}
	return rows, nil
}
