package load

import (
	"iter"
	"math"
	"time"
)

// Arrival is one event of a load.
type Arrival struct {
	N    int           // from 0
	At   time.Duration // since the load began
	Kind Kind
}

// Arrivals returns all arrivals of a run, in order. They depend on the plan and on chance, a number
// from 0 up to 1 at each call, and never on the system: a load that waited for answers would slow
// down whenever the system is slow, and would leave out just what must be measured.
func (p Plan) Arrivals(chance func() float64) iter.Seq[Arrival] {
	return func(yield func(Arrival) bool) {
		// due counts arrivals at rate 1: the wave then says when that many have come.
		var due float64
		for n := 0; ; n++ {
			if p.Spacing == Even {
				due = float64(n) + 0.5
			} else {
				due -= math.Log(1 - chance())
			}
			at := p.when(due)
			if at >= p.For || !yield(Arrival{N: n, At: at, Kind: p.kind(chance())}) {
				return
			}
		}
	}
}

// when is the time by which n arrivals have come on average.
func (p *Profile) when(n float64) time.Duration {
	seconds := n / p.Rate // at the average rate
	if len(p.Wave) == 0 {
		return duration(seconds)
	}
	var length float64
	for _, s := range p.Wave {
		length += s.For.Seconds()
	}
	waves := math.Floor(seconds / length)
	at, left := waves*length, seconds-waves*length
	for _, s := range p.Wave {
		brings := s.For.Seconds() * s.Of
		if left < brings {
			return duration(at + left/s.Of)
		}
		at, left = at+s.For.Seconds(), left-brings
	}
	return duration(at)
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// kind chooses by a number from 0 up to 1.
func (p *Profile) kind(of float64) Kind {
	for _, s := range p.Mix[:len(p.Mix)-1] {
		if of -= s.Of; of < 0 {
			return s.Kind
		}
	}
	return p.Mix[len(p.Mix)-1].Kind
}
