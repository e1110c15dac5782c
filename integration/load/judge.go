package load

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// Finding compares a figure of a result with that of an earlier one.
type Finding struct {
	What string `json:"what"`
	// Was and Is are the medians over the rounds.
	Was float64 `json:"was"`
	Is  float64 `json:"is"`
	// Low and High are the interval of the ratio between now and before; above 1 is worse.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Worse tells that it has become worse beyond noise.
	Worse bool `json:"worse"`
}

// How sure a finding must be. Doubt is how likely it may be that any figure of a comparison is
// called worse although only chance has changed it; Margin is by which share a figure must be worse
// to count at all.
const (
	Doubt  = 0.05
	Margin = 0.05
)

// figure is a figure that is judged.
type figure struct {
	what   string
	of     func(*Round) float64
	higher bool // is better
}

// figures leaves out what depends on single tasks: p99.9 and max.
var figures = []figure{
	{"done per second", func(r *Round) float64 { return r.PerSecond }, true},
	{"until the start p50, ms", func(r *Round) float64 { return r.Start.P50 }, false},
	{"until the start p99, ms", func(r *Round) float64 { return r.Start.P99 }, false},
	{"until the end p99, ms", func(r *Round) float64 { return r.End.P99 }, false},
	{"processor time of a task, server, µs", func(r *Round) float64 { return r.Server }, false},
	{"server memory, max, MiB", func(r *Round) float64 { return float64(r.Memory) / (1 << 20) }, false},
}

// Bounds are what a server may take, in bytes; 0 for no bound.
type Bounds struct{ Disk, Memory int64 }

// Over says what a server took more in a round than it may; nil if nothing.
func (b Bounds) Over(r *Result) error {
	var all []error
	for i, round := range r.Rounds {
		for _, is := range []struct {
			what        string
			took, bound int64
		}{{"disk", round.Disk, b.Disk}, {"memory", round.Memory, b.Memory}} {
			if is.bound > 0 && is.took > is.bound {
				all = append(all, fmt.Errorf("round %d: the server took %d MiB of %s, more than %d MiB", i+1, is.took>>20, is.what, is.bound>>20))
			}
		}
	}
	return errors.Join(all...)
}

// ErrUnlike: two results cannot be compared.
var ErrUnlike = errors.New("cannot be compared")

// Compare judges a result by an earlier one of the same plan. More lost, duplicated or failed tasks
// than in any earlier round count as worse in any case.
func Compare(was, is *Result) ([]Finding, error) {
	k, err := fits(was, is, len(is.Rounds))
	if err != nil {
		return nil, err
	}
	var found []Finding
	for _, f := range figures {
		before, now := values(was, f.of), values(is, f.of)
		if slices.Contains(before, 0) || slices.Contains(now, 0) {
			continue // not measured here or there
		}
		var ratios []float64
		for _, b := range before {
			for _, n := range now {
				if f.higher {
					ratios = append(ratios, b/n)
				} else {
					ratios = append(ratios, n/b)
				}
			}
		}
		slices.Sort(ratios)
		low, high := ratios[k-1], ratios[len(ratios)-k]
		found = append(found, Finding{What: f.what, Was: median(before), Is: median(now), Low: low, High: high, Worse: low > 1+Margin})
	}
	odd := func(r *Round) float64 { return float64(r.Failed + r.Lost + r.Duplicated) }
	before, now := values(was, odd), values(is, odd)
	return append(found, Finding{What: "failed, lost, duplicated", Was: median(before), Is: median(now), Worse: slices.Max(now) > slices.Max(before)}), nil
}

// Comparable tells beforehand whether a result with that many rounds can be compared with an
// earlier one.
func Comparable(was, is *Result, rounds int) error {
	_, err := fits(was, is, rounds)
	return err
}

func fits(was, is *Result, rounds int) (k int, err error) {
	if was.Profile != is.Profile || was.Rate != is.Rate || was.Seconds != is.Seconds || was.Spacing != is.Spacing {
		return 0, fmt.Errorf("%w: this is %s, and the other %s", ErrUnlike, is.plan(), was.plan())
	}
	if k = rank(len(was.Rounds), rounds, Doubt/float64(len(figures))); k == 0 {
		return 0, fmt.Errorf("%w: %d rounds beside %d tell nothing apart from chance; want 5 and 5, or more", ErrUnlike, rounds, len(was.Rounds))
	}
	return k, nil
}

func (r *Result) plan() string {
	return fmt.Sprintf("%s, %v arrivals a second (%s) for %v s", r.Profile, r.Rate, r.Spacing, r.Seconds)
}

func values(r *Result, of func(*Round) float64) []float64 {
	all := make([]float64, len(r.Rounds))
	for i := range r.Rounds {
		all[i] = of(&r.Rounds[i])
	}
	return all
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	n := len(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}

// rank returns which of the m·n ratios of all pairs, in order, is the end of the interval: the k-th
// from below is above the true ratio with a chance of at most doubt, whatever the distribution of
// the rounds (Hodges and Lehmann, by the distribution of Mann and Whitney's U). It is 0 if there
// are too few rounds.
func rank(m, n int, doubt float64) int {
	if m == 0 || n == 0 {
		return 0
	}
	// ways[j][u] is in how many orders of i rounds before and j now there are u pairs with the one
	// now below.
	ways := make([][]*big.Int, n+1)
	for i := range m + 1 {
		for j := range n + 1 {
			of := make([]*big.Int, i*j+1)
			for u := range of {
				of[u] = new(big.Int)
				if i == 0 || j == 0 {
					of[u].SetInt64(1)
					continue
				}
				// The largest of all is either one before, which is above all j now, or one now.
				if u >= j && u-j < len(ways[j]) {
					of[u].Add(of[u], ways[j][u-j])
				}
				if u < len(ways[j-1]) && j > 0 {
					of[u].Add(of[u], ways[j-1][u])
				}
			}
			ways[j] = of
		}
	}
	all := new(big.Int)
	for _, w := range ways[n] {
		all.Add(all, w)
	}
	sum, k := new(big.Int), 0
	for _, w := range ways[n] {
		sum.Add(sum, w)
		chance, _ := new(big.Rat).SetFrac(sum, all).Float64()
		if chance > doubt {
			break
		}
		k++
	}
	return k
}
