package pages

import (
	"slices"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
)

// Bounds of what is counted for the plots.
const (
	bucketOf = 10 * time.Second
	buckets  = 180
)

// series counts recent ends and failures, and how long tasks wait for their start, by the log's
// time. It is a [projections.Observer], and so covers what the read model has folded since it was
// opened.
type series struct {
	mu    sync.Mutex
	of    [buckets]bucket // guarded by mu; by the number of the bucket, modulo
	since time.Time       // guarded by mu; the time of the first counted record
}

type bucket struct {
	n                    int64 // its number since 1970
	done, failed, starts int
	waited               time.Duration // all of those that started
	// oldest is how long the task had waited that had waited longest, when it was last asked for; asked tells whether it was.
	oldest time.Duration
	asked  bool
}

// Observe counts records.
func (s *series) Observe(steps []events.Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range steps {
		s.add(&steps[i])
	}
}

// add is called with mu held.
func (s *series) add(step *events.Step) {
	was, is, at := &step.Was, &step.Is, step.Record.Stored
	if s.since.IsZero() {
		s.since = at
	}
	if is.State == task.Unknown || was.State == is.State && was.Epoch == is.Epoch {
		return
	}
	b := s.at(at)
	if b == nil {
		return
	}
	switch {
	case was.State == task.Pending && is.State == task.Running:
		b.starts++
		b.waited += max(is.StartedAt.Sub(was.Since), 0)
	case is.State == task.Finished:
		b.done++
	case is.State == task.Error, is.State == task.Abnormal, is.State == task.Retrying:
		b.failed++
	}
}

// at is the bucket of a time, nil if that is older than all that is kept. It must be called with mu held.
func (s *series) at(t time.Time) *bucket {
	n := t.UnixNano() / int64(bucketOf)
	b := &s.of[n%buckets]
	if b.n > n {
		return nil
	}
	if b.n < n {
		*b = bucket{n: n}
	}
	return b
}

// wait notes since when the task has been pending that has waited longest; the zero time if none waits.
func (s *series) wait(now, oldest time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		s.since = now
	}
	if b := s.at(now); b != nil {
		b.asked, b.oldest = true, 0
		if !oldest.IsZero() {
			b.oldest = max(now.Sub(oldest), 0)
		}
	}
}

// point is a bucket as it is plotted.
type point struct {
	At int64 // seconds since 1970
	// Done and Failed are per second, and Wait is the mean in milliseconds, -1 if nothing has
	// started.
	Done, Failed, Wait, Oldest float64
}

// points returns the complete buckets in order, from the first one with data on.
func (s *series) points(now time.Time) (all []point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := now.UnixNano() / int64(bucketOf)
	first := max(last-buckets+1, s.since.UnixNano()/int64(bucketOf))
	if s.since.IsZero() {
		return nil
	}
	for n := first; n < last; n++ {
		p := point{At: n * int64(bucketOf/time.Second), Wait: -1, Oldest: -1}
		if b := &s.of[n%buckets]; b.n == n {
			p.Done, p.Failed = float64(b.done)/bucketOf.Seconds(), float64(b.failed)/bucketOf.Seconds()
			if b.starts > 0 {
				p.Wait = float64(b.waited) / float64(time.Millisecond) / float64(b.starts)
			}
			if b.asked {
				p.Oldest = b.oldest.Seconds()
			}
		}
		all = append(all, p)
	}
	return all
}

// percentile returns the smallest of the durations that percent of them do not exceed; 0 for none.
func percentile(of []time.Duration, percent int) time.Duration {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[(len(sorted)*percent+99)/100-1]
}
