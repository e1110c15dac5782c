package metrics

import (
	"sync"
	"time"
)

// Lag measures how far a read model is behind its log, in sequences and in time. It is a [Source].
// Safe for concurrent use.
type Lag struct {
	mu      sync.Mutex
	ends    []sighting // guarded by mu, like all below; unreached ends of the log, the oldest first
	reached uint64
	end     uint64
	looked  time.Time
}

// sighting is the end of the log at a time.
type sighting struct {
	seq uint64
	at  time.Time
}

// maxSightings bounds the memory: with one look a second, ten minutes. Beyond that the newer half
// is thinned and the oldest stays.
const maxSightings = 600

// Look takes the end of the log and the read model's position at an instant. Instants must rise
// from call to call.
func (l *Lag) Look(end, reached uint64, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end, l.reached, l.looked = end, reached, now
	if len(l.ends) > 0 && end < l.ends[len(l.ends)-1].seq {
		l.ends = l.ends[:0] // another log
	}
	done := 0
	for done < len(l.ends) && l.ends[done].seq <= reached {
		done++
	}
	l.ends = append(l.ends[:0], l.ends[done:]...)
	if end <= reached || len(l.ends) > 0 && l.ends[len(l.ends)-1].seq == end {
		return
	}
	if len(l.ends) >= maxSightings {
		kept := l.ends[:1]
		for i := 2; i < len(l.ends); i += 2 {
			kept = append(kept, l.ends[i])
		}
		l.ends = kept
	}
	l.ends = append(l.ends, sighting{end, now})
}

// Behind is how long the oldest unfolded message had been in the log at the last look, and when
// that look was; zero if there was none.
func (l *Lag) Behind() (behind time.Duration, looked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.behind(), l.looked
}

func (l *Lag) behind() time.Duration {
	if len(l.ends) == 0 {
		return 0
	}
	return l.looked.Sub(l.ends[0].at)
}

// Collect emits the lag at the last look, and nothing before the first.
func (l *Lag) Collect(emit Emit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.looked.IsZero() {
		return
	}
	emit(ReadModelSeq, float64(l.reached), nil)
	emit(ReadModelLag, float64(max(l.end, l.reached)-l.reached), nil)
	emit(ReadModelLagTime, l.behind().Seconds(), nil)
}
