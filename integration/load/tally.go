package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// longest is the longest latency that is told from longer ones.
const longest = time.Hour

// mostPoints bounds how many points a round has while the load comes.
const mostPoints = 600

// Tally adds up one round, from events in the log's order. Times are since the load began.
// Latencies count from when an arrival was due, so a stall counts for everything that it has
// delayed, and no correction is needed.
type Tally struct {
	every            time.Duration
	round            Round
	done             int
	last             time.Duration // the last end
	waiting          int
	start, end, sent *hdrhistogram.Histogram
	points           []point
	looked           time.Duration // when the server was last measured
	used             time.Duration // its processor time until then
}

type point struct {
	Point
	start, end *hdrhistogram.Histogram
	counted    bool // a task began or stopped waiting in it
	waiting    int  // waiting after that
}

// NewTally returns the tally of a run of a plan.
func NewTally(p Plan) *Tally {
	t := &Tally{every: time.Second, start: histogram(3), end: histogram(3), sent: histogram(3)}
	for t.every*mostPoints < p.For {
		t.every += time.Second
	}
	return t
}

func histogram(digits int) *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longest.Microseconds(), digits)
}

// at returns the point of a time. Earlier times count for the first point.
func (t *Tally) at(at time.Duration) *point {
	n := int(max(at, 0) / t.every)
	for len(t.points) <= n {
		// Two digits: there are hundreds of them.
		t.points = append(t.points, point{Point: Point{At: float64(len(t.points)) * t.every.Seconds()}, start: histogram(2), end: histogram(2)})
	}
	return &t.points[n]
}

// record counts a latency, also one that is out of range.
func (t *Tally) record(d time.Duration, in ...*hdrhistogram.Histogram) {
	if d < 0 || d > longest {
		t.round.OutOfRange++
		d = min(max(d, 0), longest)
	}
	for _, h := range in {
		_ = h.RecordValue(d.Microseconds()) // it is in range
	}
}

// Sent counts a submitted arrival.
func (t *Tally) Sent(a Arrival, at time.Duration) {
	t.round.Arrivals++
	t.at(a.At).Arrived++
	t.record(at-a.At, t.sent)
}

// Born counts a task whose birth is stored.
func (t *Tally) Born(at time.Duration) {
	t.round.Tasks++
	t.wait(at, 1)
}

// wait records that more tasks wait for their start.
func (t *Tally) wait(at time.Duration, more int) {
	t.waiting += more
	t.round.Depth = max(t.round.Depth, t.waiting)
	p := t.at(at)
	p.Depth, p.counted, p.waiting = max(p.Depth, t.waiting), true, t.waiting
}

// Started counts the first start of a task, Begun that of an arrival.
func (t *Tally) Started(at time.Duration) { t.wait(at, -1); t.at(at).Started++ }

// Begun counts an arrival whose first task has started.
func (t *Tally) Begun(due, at time.Duration) { t.record(at-due, t.start, t.at(due).start) }

// Ended counts the first end of a task.
func (t *Tally) Ended(at time.Duration, finished bool) {
	t.at(at).Ended++
	if !finished {
		t.round.Failed++
	}
}

// Again counts another end of a task that had ended.
func (t *Tally) Again() { t.round.Duplicated++ }

// Done counts an arrival whose last task has ended.
func (t *Tally) Done(due, at time.Duration) {
	t.done++
	t.last = max(t.last, at)
	t.record(at-due, t.end, t.at(due).end)
}

// Sample records the server's memory and disk, and the processor time it has used since the load began. That
// was used since the last sample, so it counts in the middle between both.
func (t *Tally) Sample(at time.Duration, memory, disk int64, used time.Duration) {
	if at < 0 { // schedules are stored before the load begins
		t.used = used
		return
	}
	p := t.at(at)
	p.Memory = max(p.Memory, memory)
	t.round.Memory, t.round.Disk = max(t.round.Memory, memory), max(t.round.Disk, disk)
	t.at((t.looked + at) / 2).Busy += (used - t.used).Seconds() / t.every.Seconds()
	t.looked, t.used = at, used
}

// Round returns the result. server and worker are the cost per task, lost how many tasks have no
// end.
func (t *Tally) Round(lost int, server, worker float64) Round {
	r := t.round
	r.Lost, r.Server, r.Worker, r.Every = lost, server, worker, t.every.Seconds()
	if t.last > 0 {
		r.PerSecond = float64(t.done) / t.last.Seconds()
	}
	r.Start, r.End, r.Sent = latency(t.start), latency(t.end), latency(t.sent)
	waiting, memory := 0, int64(0)
	r.Points = make([]Point, len(t.points))
	for i := range t.points {
		p := &t.points[i]
		r.Points[i] = p.Point
		r.Points[i].Depth = max(p.Depth, waiting) // as many waited when it began
		if p.counted {
			waiting = p.waiting
		}
		r.Points[i].Start, r.Points[i].End = latency(p.start), latency(p.end)
		if r.Points[i].Memory == 0 { // it was not measured
			r.Points[i].Memory = memory
		}
		memory = r.Points[i].Memory
	}
	return r
}

func latency(h *hdrhistogram.Histogram) Latency {
	at := func(p float64) float64 { return float64(h.ValueAtPercentile(p)) / 1000 }
	return Latency{P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: float64(h.Max()) / 1000}
}
