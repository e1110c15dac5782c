package whatif

import (
	"cmp"
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/value"
)

// Certainty of the duration and end of a played attempt.
const (
	// Recorded: the log has that attempt, and it ended by itself.
	Recorded = "recorded"
	// Median: its duration is the median of its job's attempts that ended by themselves, and it
	// ends as most of them did.
	Median = "median"
	// Guessed: the same from all attempts, because the log has none of that job.
	Guessed = "guessed"
)

// try is an attempt in the log.
type try struct {
	node  string
	start time.Time
	took  time.Duration // 0 if it did not end, or only after it was taken from its node
	ends  task.Command  // how it ended by itself, for epoch 0; nil if it did not
	steps []task.Step   // of its function, that it recorded
}

// runs are the attempts of one job that ended by themselves.
type runs struct {
	took   []time.Duration
	failed map[string]int // by class
	sorted bool
}

// model is the log's knowledge of durations and ends of attempts.
type model struct {
	tries    map[task.ID]map[int]*try
	ends     map[task.ID]*task.Task // each task at the end of the log
	jobs     map[string]*runs
	all      runs
	handover time.Duration
}

// jobOf is the name that tasks with similar attempts share.
func jobOf(t *task.Task) string {
	if t.Job != "" {
		return t.Job + "/" + t.Step
	}
	if t.Spec != nil && t.Spec.Handler != "" {
		return "handler " + t.Spec.Handler
	}
	return t.Spec.Text()
}

// modelOf reads a log.
func modelOf(records []events.Record) *model {
	m := &model{tries: map[task.ID]map[int]*try{}, ends: map[task.ID]*task.Task{}, jobs: map[string]*runs{}}
	freed := map[string]time.Time{} // when a node last ended an attempt
	var waits []time.Duration       // from when there were a task and a place for it to its start
	for i := range records {
		r := &records[i]
		if r.Fact.Task == "" {
			continue
		}
		t := m.ends[r.Fact.Task]
		if t == nil {
			t = &task.Task{ID: r.Fact.Task}
			m.ends[t.ID] = t
		}
		was, epoch, attempt, since := t.State, t.Epoch, t.Attempt, t.Since
		t.Apply(r.Task())
		if (was == task.Running || was == task.Cancelling) && epoch > 0 && (t.Epoch != epoch || !t.Live()) {
			m.ended(t, m.tries[t.ID][attempt], attempt, r)
			freed[m.nodeOf(t.ID, attempt)] = r.Fact.At
		}
		if e, ok := r.Fact.Event.(task.AttemptStepped); ok && t.Epoch == e.Epoch {
			if is := m.tries[t.ID][e.Attempt]; is != nil {
				is.steps = append(is.steps, e.Steps...)
			}
		}
		if e, ok := r.Fact.Event.(task.AttemptStarted); ok && t.Epoch == r.Seq {
			if m.tries[t.ID] == nil {
				m.tries[t.ID] = map[int]*try{}
			}
			m.tries[t.ID][e.Attempt] = &try{node: e.Node, start: r.Fact.At}
			if from := freed[e.Node]; was == task.Pending {
				if from.Before(since) {
					from = since
				}
				waits = append(waits, max(r.Fact.At.Sub(from), 0))
			}
		}
	}
	m.handover = median(waits)
	return m
}

func (m *model) nodeOf(id task.ID, attempt int) string {
	if is := m.tries[id][attempt]; is != nil {
		return is.node
	}
	return ""
}

// ended records how an attempt ended.
func (m *model) ended(t *task.Task, is *try, attempt int, r *events.Record) {
	if is == nil {
		return
	}
	is.took = max(r.Fact.At.Sub(is.start), 0)
	class := ""
	switch e := r.Fact.Event.(type) {
	case task.AttemptFinished:
		is.ends = task.Finish{Exit: e.Exit, Result: e.Result}
	case task.AttemptFailed:
		if class = e.Class; class == value.Timeout {
			return // without the timeout it would have run longer
		}
		c := task.Fail{Class: e.Class, Exit: e.Exit, Message: e.Message, RetryAfter: e.RetryAfter.Std()}
		if by := r.Fact.By; by != nil {
			c.Final, c.Chance = by.Final, by.Drawn
		}
		is.ends = c
	case task.AttemptParked: // no attempt of the job ends with it
		is.ends = task.Suspend{Park: e.Park, Steps: append(is.steps, e.Steps...), Usage: e.Usage}
		return
	default:
		return
	}
	job := m.jobs[jobOf(t)]
	if job == nil {
		job = &runs{}
		m.jobs[jobOf(t)] = job
	}
	job.add(is.took, class)
	m.all.add(is.took, class)
}

func (r *runs) add(took time.Duration, class string) {
	if r.took = append(r.took, took); class == "" {
		return
	}
	if r.failed == nil {
		r.failed = map[string]int{}
	}
	r.failed[class]++
}

// typical is the median duration of the attempts, and the most frequent end.
func (r *runs) typical() (took time.Duration, ends task.Command) {
	if !r.sorted {
		slices.Sort(r.took)
		r.sorted = true
	}
	failed, most := 0, ""
	for class, n := range r.failed {
		if failed += n; most == "" || n > r.failed[most] || n == r.failed[most] && class < most {
			most = class
		}
	}
	if ends = (task.Finish{}); 2*failed > len(r.took) {
		ends = task.Fail{Class: most, Message: "as most attempts of its job"}
	}
	return r.took[len(r.took)/2], ends
}

// run returns the duration and the end of an attempt that nothing ends earlier.
func (m *model) run(t *task.Task) (took time.Duration, ends task.Command, sure string) {
	is := m.tries[t.ID][t.Attempt]
	if is != nil && is.ends != nil {
		ends := is.ends
		if c, waits := ends.(task.Suspend); waits {
			if !c.Park.Until.IsZero() { // its function waits as long, from when it comes there
				c.Park.Until = c.Park.Until.Add(t.StartedAt.Sub(is.start))
			}
			ends = c
		}
		return is.took, ends, Recorded
	}
	of := &m.all
	if sure = Guessed; m.jobs[jobOf(t)] != nil {
		of, sure = m.jobs[jobOf(t)], Median
	}
	if ends = (task.Finish{}); len(of.took) > 0 {
		took, ends = of.typical()
	}
	if is != nil { // it ran at least this long
		took = max(took, is.took)
	}
	return took, ends, sure
}

func median(of []time.Duration) time.Duration { return share(of, 0.5) }

// share is the quantile of the durations; 0 if there are none.
func share(of []time.Duration, part float64) time.Duration {
	if len(of) == 0 {
		return 0
	}
	of = slices.SortedFunc(slices.Values(of), cmp.Compare[time.Duration])
	return of[min(int(part*float64(len(of))), len(of)-1)]
}
