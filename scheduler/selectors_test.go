package scheduler

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/task/job"
	"millrace/task/placement"
)

// crowdedSelectors are declarations of which all are in the way of more.
type crowdedSelectors struct{ all []placement.Declaration }

func (c *crowdedSelectors) Declare(_ context.Context, d placement.Declaration) error {
	c.all = append(c.all, d)
	return nil
}

func (c *crowdedSelectors) Declared(context.Context) ([]placement.Declaration, error) {
	return c.all, nil
}

func (c *crowdedSelectors) Crowded(context.Context) ([]placement.Declaration, error) {
	return slices.Clone(c.all), nil
}

func (c *crowdedSelectors) Retract(_ context.Context, d placement.Declaration) error {
	c.all = slices.DeleteFunc(c.all, func(other placement.Declaration) bool { return other.Route() == d.Route() })
	return nil
}

// Where there is little room for selectors, a sweep removes those that no task needs, and no new
// ones. One that was removed while a task was placed comes back, and begins before that task.
func TestUnusedSelectorsGoWhenRoomIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		needs := func(text string) placement.Selector {
			s, err := placement.ParseSelector(text)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		declared := func(text string, ago time.Duration) placement.Declaration {
			return placement.Declaration{Queue: "default", Needs: needs(text), At: time.Now().Add(-ago)}
		}
		c := &crowdedSelectors{all: []placement.Declaration{declared("used", time.Hour), declared("unused", time.Hour), declared("new", time.Second)}}
		s := New(w.Memory, w, w, Config{Settings: settings, Selectors: c})
		w.asked(t, job.Spec{Handler: "x", Place: job.Place{Labels: needs("used"), NoNode: job.NoNodeWait}})
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		left := func() (texts []string) {
			for _, d := range c.all {
				texts = append(texts, d.Needs.String())
			}
			slices.Sort(texts)
			return slices.Compact(texts)
		}
		if got := left(); !slices.Equal(got, []string{"new", "used"}) {
			t.Errorf("there are %v", got)
		}
		c.all = nil
		pass(5 * time.Second)
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := left(); !slices.Equal(got, []string{"used"}) || c.all[0].From != 1 {
			t.Errorf("then there are %+v", c.all)
		}
	})
}
