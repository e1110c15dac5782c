package pages

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/internal/files"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/jobfile"
	"millrace/task/limit"
	"millrace/task/placement"
)

var (
	jobsPage = page{name: "jobs", path: "/jobs", entry: "Jobs", verb: rights.JobList, show: showJobs, inFiles: true}
	jobPage  = page{name: "job", path: "/jobs/{name}", verb: rights.JobGet, show: showJob, inFiles: true}
)

// Bounds of what the pages of jobs show.
const (
	countedRuns    = 500 // the latest tasks of all jobs of which the list has figures
	countedRare    = 50  // the latest tasks of a job that has none among those
	mostRare       = 100 // jobs of which these are looked up
	countedJobRuns = 200 // the latest tasks of one job
	shownRuns      = 10
	shownBars      = 60 // the latest tasks of one job that are drawn as bars
	shownSquares   = 12 // the same in the list of jobs
	shownRevisions = 20
)

type jobsData struct {
	list[client.JobRow]
	// Figures says why there are none.
	Figures panel
	// Runs are figures of jobs, and Strips their latest tasks, by their names.
	Runs   map[string]figures
	Strips map[string]strip
	Grid   gridData
	// Query is the text by which jobs are chosen, All how many there are of them and the others, Groups what is
	// shown of them, and Ways by what they can be grouped.
	Query  string
	All    int
	Groups []jobGroup
	Ways   []tab
}

// jobGroup are jobs that are shown together; Name is "" for all.
type jobGroup struct {
	Name string
	Rows []client.JobRow
}

// figures summarise the latest tasks of a job.
type figures struct {
	N, Failed int
	// P50 and P95 are percentiles of the duration of finished ones; 0 for none.
	P50, P95 time.Duration
}

func showJobs(ctx context.Context, l *look) (any, error) {
	d := &jobsData{Runs: map[string]figures{}, Strips: map[string]strip{}, Grid: l.grid(ctx, client.GridRequest{Jobs: true})}
	d.Rows, d.Broken = summed(&d.panel, l.Sums, func(sums view.Summed) ([]client.JobRow, error) { return client.JobRowsOf(ctx, l.View, sums, l.Now) })
	d.arrange(l)
	of, err := runsOf(ctx, l.View, d.Rows)
	if err != nil && d.Wrong == nil {
		d.Figures.fail(err)
	}
	for job, runs := range of {
		d.Runs[job], d.Strips[job] = figuresOf(runs), stripOf(runs, shownSquares, squareHeight)
	}
	d.columns = term.Choose(wording.JobColumns(l.Now), "job", "next", "last", "latest", "tasks", "failed", "p50", "p95", "runs")
	return d, nil
}

// mostGroupings is by how many labels jobs can be grouped at most.
const mostGroupings = 8

// arrange chooses the jobs in which all words of the query stand, and lists them together by the group that they name,
// or by what the page is asked for: their queues, a label, or nothing but their names.
func (d *jobsData) arrange(l *look) {
	d.Query, d.All = strings.TrimSpace(l.Asked("q")), len(d.Rows)
	grouped, labels := false, map[string]int{}
	words := strings.Fields(strings.ToLower(d.Query))
	d.Rows = slices.DeleteFunc(d.Rows, func(j client.JobRow) bool {
		grouped = grouped || j.Group != ""
		for name := range j.Labels {
			labels[name]++
		}
		says := []string{j.Name, j.Title, j.Group, j.Owner, queueOf(&j), wording.Pairs(j.Labels), strings.Join(j.Schedules, " "), j.Text()}
		text := strings.ToLower(strings.Join(says, "\n"))
		return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(text, word) })
	})
	by := l.Asked("by")
	way := func(name, of string) {
		d.Ways = append(d.Ways, tab{Name: name, Link: l.Here("by", of), Here: by == of})
	}
	if way("name", "name"); grouped {
		way("group", "")
	} else if by == "" {
		by, d.Ways[0].Here = "name", true
	}
	way("queue", "queue")
	names := slices.SortedFunc(maps.Keys(labels), func(a, b string) int { return cmp.Or(cmp.Compare(labels[b], labels[a]), cmp.Compare(a, b)) })
	for _, name := range names[:min(len(names), mostGroupings)] {
		way(name, "label."+name)
	}
	label, labelled := strings.CutPrefix(by, "label.")
	rows := map[string][]client.JobRow{}
	for i := range d.Rows {
		j, name := &d.Rows[i], ""
		switch {
		case by == "queue":
			name = queueOf(j)
		case labelled && j.Labels[label] != "":
			name = label + "=" + j.Labels[label]
		case labelled:
			name = "no " + label
		case by == "":
			name = cmp.Or(j.Group, "no group")
		}
		rows[name] = append(rows[name], *j)
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		d.Groups = append(d.Groups, jobGroup{name, rows[name]})
	}
}

// queueOf is the queue of a job.
func queueOf(j *client.JobRow) string { return cmp.Or(j.Queue, placement.DefaultQueue) }

// runsOf are the tasks of which jobs have figures: the latest of all jobs, and for jobs that have none among those their own latest.
func runsOf(ctx context.Context, v view.View, rows []client.JobRow) (map[string][]view.Run, error) {
	latest, err := view.Runs(ctx, v, view.Filter{Limit: countedRuns})
	if err != nil {
		return nil, err
	}
	of := map[string][]view.Run{}
	for _, run := range latest {
		if run.Root {
			of[run.Job] = append(of[run.Job], run)
		}
	}
	asked := 0
	for i := range rows {
		job := rows[i].Name
		if of[job] != nil || rows[i].Last == nil || asked == mostRare {
			continue
		}
		asked++
		own, err := view.Runs(ctx, v, view.Filter{Job: job, Roots: true, Limit: countedRare})
		if err != nil {
			return of, err
		}
		of[job] = own
	}
	return of, nil
}

// summed returns rows with figures from sums; if those cannot be read, the rows without, and why.
// broken names rows that are not valid.
func summed[R any](p *panel, sums view.Summed, rowsOf func(view.Summed) ([]R, error)) (rows []R, broken string) {
	rows, err := rowsOf(sums)
	if err != nil && len(rows) == 0 {
		p.fail(err)
		rows, err = rowsOf(nil)
	}
	if err != nil {
		broken = err.Error()
	}
	return rows, broken
}

func figuresOf(runs []view.Run) (f figures) {
	var ran []time.Duration
	for i := range runs {
		switch t := &runs[i]; t.State {
		case task.Error, task.Abnormal:
			f.Failed++
		case task.Finished:
			ran = append(ran, t.Ran.Std())
		}
	}
	f.N = len(runs)
	slices.Sort(ran)
	f.P50, f.P95 = rank(ran, 50), rank(ran, 95)
	return f
}

// forgotten are the figures of tasks that the log has forgotten. Durations are rounded up to the next bucket.
func forgotten(j task.JobTallied) (f figures) {
	f.Failed = int(j.Error + j.Abnormal)
	f.N = f.Failed + int(j.Finished+j.Cancelled)
	rank := func(percent uint64) time.Duration {
		left := max((j.Finished*percent+99)/100, 1)
		for i, n := range j.Buckets {
			if left <= n {
				return task.BucketTop(i)
			}
			left -= n
		}
		return 0
	}
	f.P50, f.P95 = rank(50), rank(95)
	return f
}

// rank returns the smallest of sorted values that percent of them do not exceed; 0 for none.
func rank(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max((len(sorted)*percent+99)/100, 1)-1]
}

// strip is the latest tasks of a job as bars beside each other, the oldest first.
type strip struct {
	Width, Height int
	Bars          []stripBar
}

// stripBar is a task: its colour is its state, and its height how long it ran.
type stripBar struct {
	ID    task.ID
	State task.State
	// X and Y are the upper left corner.
	X, Y, Height int
	Title        string
}

// Sizes of a strip, in pixels.
const (
	barPitch     = 10 // from bar to bar; a bar is 2 narrower
	barHeight    = 48 // of the task that ran longest
	squareHeight = 14 // of all bars in the list of jobs
	leastBar     = 6  // as high as the bar of a task that has hardly run
)

// stripOf draws most of the given runs, which are sorted by age, the youngest first. The heights
// are in proportion to the longest run.
func stripOf(runs []view.Run, most, height int) strip {
	runs = runs[:min(len(runs), most)]
	longest := time.Duration(1)
	for i := range runs {
		longest = max(longest, runs[i].Ran.Std())
	}
	s := strip{Width: len(runs) * barPitch, Height: height}
	for i := range slices.Backward(runs) {
		t := &runs[i]
		b := stripBar{ID: t.ID, State: t.State, X: len(s.Bars) * barPitch, Height: height, Title: t.ID.Short() + " " + t.State.String()}
		if t.Ran > 0 {
			b.Title += ", " + wording.Span(t.Ran.Std())
		}
		if height == barHeight {
			b.Height = max(int(float64(height)*float64(t.Ran.Std())/float64(longest)), leastBar)
		}
		b.Y = height - b.Height
		s.Bars = append(s.Bars, b)
	}
	return s
}

// small is a small line of what was used, the oldest first. Of says by whom, or when.
type small struct {
	Name, Of, Points, Last, Most string
}

// Sizes of a small line.
const (
	smallPitch  = 4
	smallHeight = 24
)

// measures are what is measured of attempts; 0 means that it was not.
var measures = []struct {
	name string
	is   func(u *task.Usage) int64
	text func(int64) string
}{
	{"memory", func(u *task.Usage) int64 { return u.MaxMemory }, wording.ByteCount},
	{"processor", func(u *task.Usage) int64 { return int64(u.UserTime + u.SystemTime) }, func(n int64) string { return wording.Span(time.Duration(n)) }},
}

// smalls are the small lines of tasks, which are sorted by age, the youngest first: of their memory, and of the time of
// processors. There are none of fewer than two that were measured.
func smalls(tasks []task.Task) (all []small) {
	for _, of := range measures {
		var values []int64
		for i := range slices.Backward(tasks) {
			if u := tasks[i].Usage; u != nil && of.is(u) > 0 {
				values = append(values, of.is(u))
			}
		}
		if len(values) > 1 {
			all = append(all, smallOf(of.name, "of the latest tasks", values, slices.Max(values), of.text))
		}
	}
	return all
}

// smallOf is a small line of values, of which the last is there; those below 0 are gaps. It is as high as full.
func smallOf(name, of string, values []int64, full int64, text func(int64) string) small {
	var points strings.Builder
	for i, v := range values {
		if v >= 0 {
			fmt.Fprintf(&points, "%d,%d ", i*smallPitch, smallHeight-1-int(float64(v)/float64(max(full, 1))*(smallHeight-2)))
		}
	}
	return small{name, of, strings.TrimSpace(points.String()), text(values[len(values)-1]), text(slices.Max(values))}
}

type jobData struct {
	definitions.StoredJob
	// Text is its file, and Bundle the name of the files that its tasks get; "" for none.
	Text      string
	Bundle    string
	Schedules []string
	Breaker   *limit.Circuit
	Buttons   []button
	Revisions []revision
	// Older is how many revisions are not shown.
	Older   int
	Runs    figures
	Forgot  figures // the tasks that the log has forgotten
	Strip   strip
	Latest  []task.Task
	Smalls  []small
	RunsBad panel
	Grid    gridData
}

// revision is a change of a definition: when, by whom, and what it changed.
type revision struct {
	Seq, Revision uint64
	At            time.Time
	Type, Actor   string
	Changes       []view.Change
}

func showJob(ctx context.Context, l *look) (any, error) {
	name, err := l.nameOf("job")
	if err != nil {
		return nil, err
	}
	d := &jobData{}
	if d.StoredJob, d.Revisions, d.Older, err = definedOf(ctx, l, task.DefJob, name, definitions.JobIn, func(j *definitions.StoredJob) any { return j.Job }); err != nil {
		return nil, err
	}
	l.Title = "Job " + name
	d.Text = fileOf(&d.Job)
	if d.Files != nil {
		of, _ := files.ParseRef(d.Files.Bundle) // a digest has no page
		d.Bundle = of.Name
	}
	if is, err := l.Get(ctx, view.Breaker(name)); err == nil && is.Breaker != nil && !is.Breaker.Closed() {
		d.Breaker, d.Buttons = is.Breaker, l.buttons("breakers", name, nil)
	}
	d.Buttons = append(d.Buttons, l.buttons("jobs", name, nil)...)
	// The list of schedules names those that are not valid.
	schedules, _ := client.SchedulesOf(ctx, l.View)
	for i := range schedules {
		if schedules[i].Make.Job == name {
			d.Schedules = append(d.Schedules, schedules[i].Name)
		}
	}
	d.Grid = l.grid(ctx, client.GridRequest{Job: name})
	runs, err := view.Runs(ctx, l.View, view.Filter{Job: name, Roots: true, Limit: countedJobRuns})
	d.RunsBad.fail(err)
	latest, err := l.List(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Job: name, Roots: true, Limit: shownBars}})
	d.RunsBad.fail(err)
	d.Runs, d.Strip, d.Latest, d.Smalls = figuresOf(runs), stripOf(runs, shownBars, barHeight), latest.Tasks[:min(len(latest.Tasks), shownRuns)], smalls(latest.Tasks)
	if sums, ok := l.Sums.(view.Tallied); ok {
		all, err := sums.Tallies(ctx)
		d.RunsBad.fail(err)
		d.Forgot = forgotten(all[name])
	}
	return d, nil
}

// fileOf returns a job in the form of a job file, or as it is stored if that is impossible.
func fileOf(j *job.Job) string {
	text, err := jobfile.Marshal(*j)
	if err != nil {
		return pretty(j)
	}
	return string(text)
}

// definedOf returns a definition, its latest changes, the newest first, and how many older ones there
// are. In reads it, and shown returns what of it people write.
func definedOf[D any](ctx context.Context, l *look, kind, name string, in func(string, task.Definition) (D, error), shown func(*D) any) (is D, all []revision, older int, err error) {
	facts, err := view.All(ctx, l.View, view.Definition(task.Named(kind, name)))
	if err != nil {
		return is, nil, 0, err
	}
	if is, err = in(name, events.FoldDefinition(facts)); err != nil {
		return is, nil, 0, err
	}
	var at task.Definition
	var was any = struct{}{}
	for i := range facts {
		r := &facts[i]
		e, ok := r.Fact.Event.(task.DefinitionEvent)
		if !ok || r.Err != nil {
			continue
		}
		at = task.EvolveDefinition(at, r.Seq, r.Fact.At, r.Fact.Actor, e)
		rev := revision{Seq: r.Seq, Revision: at.Revision, At: wording.FactTime(r), Type: wording.FactType(r), Actor: wording.Actor(r)}
		var now any = struct{}{}
		if then, err := in(name, at); err == nil {
			now = shown(&then)
		}
		if rev.Changes, err = view.DiffValues(was, now); err != nil {
			return is, nil, 0, err
		}
		was = now
		all = append(all, rev)
	}
	slices.Reverse(all)
	return is, all[:min(len(all), shownRevisions)], max(len(all)-shownRevisions, 0), nil
}
