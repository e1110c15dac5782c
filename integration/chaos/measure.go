package chaos

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize/english"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/value"
)

// Injected is a fault as it happened to one target.
type Injected struct {
	Fault  Fault
	Target Target
	// Began is just before the fault. Ended is when it was over: the link is good, the process goes
	// on, was started, or (for the server) accepts connections.
	Began, Ended time.Time
}

// Latency summarises durations, in milliseconds.
type Latency struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

func latencyOf(all []time.Duration) Latency {
	if len(all) == 0 {
		return Latency{}
	}
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return Latency{
		Count: len(all), P50: ms(all[(len(all)+1)/2-1]), P99: ms(all[(99*len(all)+99)/100-1]), Max: ms(all[len(all)-1]),
	}
}

// Figures say how Millrace dealt with the faults, by the log and the times of the faults. Times in
// the log are those of the server that stored it.
type Figures struct {
	// Detection is from a fault that silences a worker to the first fact about it: its node is
	// offline, or one of its attempts is lost or taken over.
	Detection Latency
	// Takeover is from such a fault to the next start of each task that ran there.
	Takeover Latency
	// Reconnect is from the end of a fault that silenced a worker, or the server, to the first fact
	// that proves the worker useful again: its node is ready (online, in a log without that), or it
	// has claimed a task.
	Reconnect Latency
	// Start is from the moment at which a task may first run, its submission or its due time, to
	// the start of its first attempt: how submitters experience a fault.
	Start Latency
	// Takeovers counts attempts that took over, LostAttempts those that the scheduler declared
	// lost, Late results of fenced attempts.
	Takeovers, LostAttempts, Late int
	// Repairs counts the offers that a scheduler placed because the process that should have did
	// not.
	Repairs int
	// Odd lists what breaks no promise but needs an explanation.
	Odd []string
}

// Measure computes the figures from a log in order, given the faults and how long a silent node may
// go unnoticed.
func Measure(records []events.Record, faults []Injected, silence time.Duration) Figures {
	m := measure{records: records, faults: faults, silence: silence}
	for i := range records {
		m.hasReady = m.hasReady || records[i].Fact.Type == nodeReady
	}
	var detection, takeover, reconnect []time.Duration
	for i := range faults {
		f := &faults[i]
		if !f.Target.isWorker() || f.Ended.IsZero() {
			if f.Target == Server && !f.Ended.IsZero() {
				reconnect = append(reconnect, m.allBack(f)...)
			}
			continue
		}
		if f.Fault.silences() {
			if d, ok := m.detected(f); ok {
				detection = append(detection, d)
			}
			takeover = append(takeover, m.takenOver(f)...)
		} else if f.Fault != Term && f.Fault != Older {
			continue // a slow link always answers
		}
		if m.usable(f.Ended).After(f.Ended) {
			continue // it comes back with the server
		}
		if d, ok := m.back(f.Target, f.Ended); ok {
			reconnect = append(reconnect, d)
		}
	}
	m.figures.Detection, m.figures.Takeover, m.figures.Reconnect = latencyOf(detection), latencyOf(takeover), latencyOf(reconnect)
	m.count()
	return m.figures
}

// nodeReady is the fact that a node has proved its route.
const nodeReady events.Type = "node.ready"

type measure struct {
	records  []events.Record
	faults   []Injected
	silence  time.Duration
	hasReady bool
	figures  Figures
}

// next returns when the next fault of a target, or of the server, begins after a time.
func (m *measure) next(target Target, after time.Time) time.Time {
	next := time.Unix(1<<40, 0)
	for _, f := range m.faults {
		if (f.Target == target || f.Target == Server) && f.Began.After(after) && f.Began.Before(next) {
			next = f.Began
		}
	}
	return next
}

// usable returns the first time from t on at which the server accepts connections.
func (m *measure) usable(t time.Time) time.Time {
	for again := true; again; {
		again = false
		for _, f := range m.faults {
			if f.Target == Server && !t.Before(f.Began) && t.Before(f.Ended) {
				t, again = f.Ended, true
			}
		}
	}
	return t
}

// disturbed tells whether the server or a scheduler was away during a fault.
func (m *measure) disturbed(f *Injected) bool {
	return slices.ContainsFunc(m.faults, func(o Injected) bool {
		return !o.Target.isWorker() && o.Began.Before(f.Ended) && o.Ended.After(f.Began)
	})
}

// there tells whether a worker was up at a time, by the log.
func (m *measure) there(n Target, at time.Time) bool {
	there := true
	for i := range m.records {
		r := &m.records[i]
		if !r.Stored.Before(at) {
			break
		}
		if r.Fact.Node != node.ID(n) || r.Kind != events.KindNode {
			continue
		}
		_, left := r.Fact.Event.(node.WentOffline)
		there = !left
	}
	return there
}

// running returns the attempts that a node ran at a time, by epoch.
func (m *measure) running(n Target, at time.Time) map[uint64]task.ID {
	live := map[task.ID]uint64{}
	for i := range m.records {
		r := &m.records[i]
		if !r.Stored.Before(at) {
			break
		}
		switch e := r.Fact.Event.(type) {
		case task.AttemptStarted:
			delete(live, r.Fact.Task)
			if e.Node == string(n) {
				live[r.Fact.Task] = r.Seq
			}
		case task.AttemptFinished, task.AttemptFailed, task.AttemptReleased, task.AttemptParked, task.AttemptLost, task.CancelConfirmed, task.GivenUp:
			delete(live, r.Fact.Task)
		}
	}
	epochs := make(map[uint64]task.ID, len(live))
	for id, epoch := range live {
		epochs[epoch] = id
	}
	return epochs
}

func (m *measure) detected(f *Injected) (time.Duration, bool) {
	if !m.there(f.Target, f.Began) {
		return 0, false // it was not up again since the fault before
	}
	epochs := m.running(f.Target, f.Began)
	limit := m.next(f.Target, f.Began)
	for i := range m.records {
		r := &m.records[i]
		if r.Stored.Before(f.Began) || !r.Stored.Before(limit) {
			continue
		}
		found := false
		switch e := r.Fact.Event.(type) {
		case node.WentOffline:
			found = r.Fact.Node == node.ID(f.Target)
		case task.AttemptLost:
			_, found = epochs[e.Epoch]
		case task.AttemptStarted:
			if e.TookOver != nil {
				_, found = epochs[e.TookOver.Epoch]
			}
		}
		if found {
			return r.Stored.Sub(f.Began), true
		}
	}
	if length := f.Ended.Sub(f.Began); length > m.silence+unnoticed && limit.After(f.Ended) && !m.disturbed(f) {
		m.odd("%s of %s for %v was never noticed", f.Fault, f.Target, length.Round(10*time.Millisecond))
	}
	return 0, false
}

// unnoticed is how much longer than a heartbeat's time to live a fault may last without a fact
// before that is odd.
const unnoticed = 4 * time.Second

func (m *measure) takenOver(f *Injected) []time.Duration {
	var all []time.Duration
	limit := m.next(f.Target, f.Began)
	epochs := m.running(f.Target, f.Began)
	waiting := make(map[task.ID]bool, len(epochs))
	for _, id := range epochs {
		waiting[id] = true
	}
	for i := range m.records {
		r := &m.records[i]
		if r.Stored.Before(f.Began) || !r.Stored.Before(limit) || !waiting[r.Fact.Task] {
			continue
		}
		switch r.Fact.Event.(type) {
		case task.AttemptStarted:
			all = append(all, r.Stored.Sub(f.Began))
			delete(waiting, r.Fact.Task)
		case task.AttemptFinished, task.AttemptFailed, task.AttemptReleased, task.AttemptParked, task.CancelConfirmed, task.GivenUp:
			delete(waiting, r.Fact.Task) // it ended where it was
		}
	}
	return all
}

// back returns how long after up a worker was useful.
func (m *measure) back(worker Target, up time.Time) (time.Duration, bool) {
	limit := m.next(worker, up)
	for i := range m.records {
		r := &m.records[i]
		if r.Stored.Before(up) {
			continue
		}
		if !r.Stored.Before(limit) {
			break
		}
		useful := false
		switch e := r.Fact.Event.(type) {
		case node.WentOnline:
			useful = r.Fact.Node == node.ID(worker) && !m.hasReady
		case task.AttemptStarted:
			useful = e.Node == string(worker)
		}
		if useful || r.Fact.Type == nodeReady && r.Fact.Node == node.ID(worker) {
			return r.Stored.Sub(up), true
		}
	}
	return 0, false
}

// allBack is back for every worker that had no fault when the server came back.
func (m *measure) allBack(server *Injected) []time.Duration {
	var all []time.Duration
	seen := map[Target]bool{}
	for i := range m.records {
		w := Target(m.records[i].Fact.Node)
		if !w.isWorker() || seen[w] {
			continue
		}
		seen[w] = true
		away := slices.ContainsFunc(m.faults, func(f Injected) bool {
			return f.Target == w && f.Began.Before(server.Ended) && f.Ended.After(server.Ended)
		})
		if d, ok := m.back(w, server.Ended); ok && !away {
			all = append(all, d)
		}
	}
	return all
}

// count counts what needs no times.
func (m *measure) count() {
	type turn struct {
		since   uint64
		others  bool // a process other than a scheduler opened it
		offered bool
	}
	turns := map[task.ID]turn{}
	births := map[task.ID]int{}
	since := map[task.ID]time.Time{} // when tasks that have not started may, unless limits say when
	limited := map[task.ID]bool{}    // schedulers offer what they admit
	var starts []time.Duration
	abnormal := map[string][]task.ID{}
	var repaired []task.ID
	for i := range m.records {
		r := &m.records[i]
		id, scheduler := r.Fact.Task, r.Fact.Actor == events.PartScheduler
		opens := turn{since: r.Seq, others: !scheduler && !limited[id]}
		switch e := r.Fact.Event.(type) {
		case task.Submitted:
			if limited[id] = e.Spec.Limited(); limited[id] {
				births[id]++
			} else if births[id]++; births[id] == 1 {
				if since[id] = r.Stored; e.Due.After(r.Stored) {
					since[id] = e.Due
				}
			}
			turns[id] = turn{others: len(e.Holds) == 0 && !limited[id], offered: e.Offers()}
		case task.Queued:
			t, known := turns[id]
			if !known || e.After != t.since || r.Kind != events.KindOffer {
				break
			}
			if scheduler && t.others && !t.offered {
				repaired = append(repaired, id)
			}
			t.offered = true
			turns[id] = t
		case task.Due:
			if t, known := turns[id]; known && e.After == t.since {
				t.offered = true
				turns[id] = t
			}
		case task.AttemptStarted:
			delete(turns, id)
			if from, first := since[id]; first {
				starts = append(starts, r.Stored.Sub(from))
				delete(since, id)
			}
			if e.TookOver != nil {
				m.figures.Takeovers++
			}
		case task.AttemptFailed:
			if e.Retry != nil {
				turns[id] = opens
			}
		case task.AttemptReleased, task.Reopened:
			turns[id] = opens
		case task.AttemptLost:
			m.figures.LostAttempts++
			turns[id] = opens
		case task.AttemptLate:
			m.figures.Late++
		case task.GivenUp:
			if e.Reason != value.Limit { // as ordered
				abnormal[e.Reason] = append(abnormal[e.Reason], id)
			}
		}
	}
	m.figures.Start = latencyOf(starts)
	m.figures.Repairs = len(repaired)
	m.explain(abnormal, repaired, births)
}

// explain lists what breaks no promise and needs an explanation: tasks that ended as abnormal, by
// reason, tasks whose offer a sweep placed, and tasks with several births.
func (m *measure) explain(abnormal map[string][]task.ID, repaired []task.ID, births map[task.ID]int) {
	for _, reason := range slices.Sorted(maps.Keys(abnormal)) {
		m.odd("%s ended as abnormal/%s%s: %s", english.Plural(len(abnormal[reason]), "task", ""), reason, whyOdd[reason], some(abnormal[reason]))
	}
	if len(repaired) > 0 {
		m.odd("a sweep placed %s whose owner was killed before, of %s", english.Plural(len(repaired), "offer", ""), some(repaired))
	}
	var twice []task.ID
	for id, n := range births {
		if n > 1 {
			twice = append(twice, id)
		}
	}
	if len(twice) > 0 {
		slices.Sort(twice)
		m.odd("%s born twice, which is harmless after a lost answer: %s", english.Plural(len(twice), "task", ""), some(twice))
	}
}

// whyOdd says why certain abnormal ends of tasks break no promise.
var whyOdd = map[string]string{
	value.Lost:    ", as is promised where the end of a process that was being cancelled was not seen",
	value.Poison:  ", as is promised where so many nodes were lost with it",
	value.Expired: ", as is promised where nothing could start it in time",
}

func (m *measure) odd(format string, args ...any) {
	m.figures.Odd = append(m.figures.Odd, fmt.Sprintf(format, args...))
}
