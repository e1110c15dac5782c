package promises

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events/jet"
	"millrace/integration/harness"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/placement"
)

// A caller that submits many tasks for unknown queues and labels (2,500 with -long) blocks nothing
// else: workers start, for those queues as well, other priorities are taken, and the log can be read. Of
// queues that no worker has served and of labels one caller has a share.
func TestFloodOfQueuesAndLabels(t *testing.T) {
	t.Parallel()
	each, most := 300, 50 // of which one caller has a quarter
	if *harness.Long {
		each = 1250
	}
	p := harness.New(t, 2*time.Second)
	p.Let("MILLRACE_MAX_SELECTORS", strconv.Itoa(most))
	dev := p.Dev("--name", "here")
	c := p.Connect()
	var g errgroup.Group
	g.SetLimit(16)
	refused, names := make(chan error, each), make(chan error, each)
	for i := range each {
		g.Go(func() error {
			_, err := c.Submit(t.Context(), birth.Submission{Spec: &job.Spec{Handler: "x"}, Queue: fmt.Sprintf("flood-%d", i), Priority: 1 + i%10})
			if errors.Is(err, jet.ErrManyQueues) {
				names <- err
				return nil
			}
			return err
		})
		g.Go(func() error {
			labels, err := placement.ParseSelector(fmt.Sprintf("label-%d", i))
			if err != nil {
				return err
			}
			_, err = c.Submit(t.Context(), birth.Submission{Spec: &job.Spec{Handler: "x", Place: job.Place{Labels: labels}}, Priority: 8})
			if errors.Is(err, jet.ErrManySelectors) {
				refused <- err
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if len(refused)+len(names) != 2*each-most/4 || len(refused) == 0 || len(names) == 0 {
		t.Errorf("%d submissions were refused for their labels and %d for their queues, want %d", len(refused), len(names), 2*each-most/4)
	}
	p.Run("run", "--wait", "--priority", "3", "--", "true")
	p.Worker("there", "--queue", "new,flood-7")
	p.Run("run", "--wait", "--queue", "new", "--priority", "2", "--", "true")
	p.Run("events", "tail", "--no-follow")
	dev.Stop()
}
