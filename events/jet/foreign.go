package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/task/placement"
	"millrace/task/value"
)

// Whoever may make consumers can replace one by another of the same name, or change it. So a
// consumer that exists is compared with the one that is wanted, whenever a process relies on it.

// difference says where a consumer is not the one that is wanted.
type difference struct {
	// words name the settings that differ.
	words []string
	// lost says that it may have passed over offers, or lose some: only a new one delivers them.
	lost bool
}

func (d *difference) String() string { return strings.Join(d.words, ", ") }

// leastWaiting is how many requests may wait at least at a consumer. Earlier versions had less than
// [maxWaiting].
const leastWaiting = 512

// differs compares a consumer with the one that is wanted. Its description and metadata do not
// count, nor do the settings of its queue: a pause, and how many offers may be out.
func differs(is, want *jetstream.ConsumerConfig) (d difference) {
	lost := func(differs bool, format string, args ...any) {
		if differs {
			d.words, d.lost = append(d.words, fmt.Sprintf(format, args...)), true
		}
	}
	lost(is.Durable != want.Durable, "it is not durable")
	lost(is.DeliverSubject != "", "it sends to %s", is.DeliverSubject)
	filters := is.FilterSubjects
	if is.FilterSubject != "" {
		filters = append(slices.Clip(filters), is.FilterSubject)
	}
	// Before timers, no offer of a queue lay deeper.
	earlier := slices.Equal(filters, []string{strings.TrimSuffix(want.FilterSubject, ">") + "*.*"})
	lost(!earlier && !slices.Equal(filters, []string{want.FilterSubject}), "it takes %s", value.List(filters))
	lost(is.AckPolicy != want.AckPolicy, "its ack policy is %s", is.AckPolicy)
	lost(is.ReplayPolicy != want.ReplayPolicy, "its replay policy is %s", is.ReplayPolicy)
	lost(is.MemoryStorage != want.MemoryStorage, "where it is stored is another")
	switch is.DeliverPolicy {
	case jetstream.DeliverAllPolicy:
	case jetstream.DeliverByStartSequencePolicy:
		lost(is.OptStartSeq > max(want.OptStartSeq, 1), "it begins at %d", is.OptStartSeq)
	default:
		lost(true, "its deliver policy is %s", is.DeliverPolicy)
	}
	lost(is.MaxWaiting < min(leastWaiting, want.MaxWaiting), "only %d requests may wait", is.MaxWaiting)
	lost(len(is.PriorityGroups) > 0 || is.PriorityPolicy != jetstream.PriorityPolicyNone, "it has groups")

	changed := func(differs bool, format string, args ...any) {
		if differs {
			d.words = append(d.words, fmt.Sprintf(format, args...))
		}
	}
	changed(earlier, "it takes %s", value.List(filters))
	changed(is.AckWait != want.AckWait, "its ack wait is %v", is.AckWait)
	changed(want.MaxDeliver > 0 && is.MaxDeliver != want.MaxDeliver, "it gives an offer up after %d deliveries", is.MaxDeliver)
	changed(want.MaxDeliver <= 0 && is.MaxDeliver > 0, "it gives up after %d deliveries", is.MaxDeliver)
	changed(len(is.BackOff) > 0, "it backs off")
	changed(is.RateLimit > 0, "it is slowed down")
	changed(is.HeadersOnly, "it delivers no bodies")
	changed(is.MaxRequestBatch > 0 || is.MaxRequestExpires > 0 || is.MaxRequestMaxBytes > 0, "its requests are bounded")
	changed(is.InactiveThreshold != want.InactiveThreshold, "it goes when it is not used for %v", is.InactiveThreshold)
	return d
}

// right is a consumer that has only changed, with its settings as they are wanted.
func right(is, want jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	is.FilterSubject, is.FilterSubjects = want.FilterSubject, nil
	is.AckWait, is.MaxDeliver, is.BackOff, is.RateLimit, is.HeadersOnly = want.AckWait, want.MaxDeliver, nil, 0, false
	is.MaxRequestBatch, is.MaxRequestExpires, is.MaxRequestMaxBytes = 0, 0, 0
	is.InactiveThreshold = want.InactiveThreshold
	return is
}

// mend makes an existing consumer the one that is wanted: it sets it right, or deletes it. It returns
// what was done in words, "" for nothing, and whether the consumer is still there.
func (s *Store) mend(ctx context.Context, is, want jetstream.ConsumerConfig) (how string, there bool, err error) {
	d := differs(&is, &want)
	switch {
	case len(d.words) == 0:
		return "", true, nil
	case !d.lost:
		_, err = s.log.UpdateConsumer(ctx, right(is, want))
		how, there = "was changed by somebody ("+d.String()+") and has been set right", true
	default:
		how = "was another one (" + d.String() + ") and has been made again"
		err = s.log.DeleteConsumer(ctx, want.Durable)
	}
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		there, err = false, nil
	}
	if err != nil {
		err = fmt.Errorf("consumer %s, which %s: %w", want.Durable, how, err)
	}
	return how, there, err
}

// madeAgain says of a consumer that there was none.
const madeAgain = "was lost and has been made again"

// foreign says where the consumer of a lane is not the one that is wanted; "" if it is, or if there
// is none.
func (s *Store) foreign(ctx context.Context, l placement.Lane) (string, error) {
	c, err := s.JS.Consumer(ctx, names.LogStream, names.LaneConsumer(l))
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	_, from, what, err := s.laneOrigin(ctx, l, true)
	if err != nil {
		return "", err
	}
	want := s.laneConfig(l, from, what)
	d := differs(&c.CachedInfo().Config, &want)
	return d.String(), nil
}

// Unlike says in words what streams lack ([streams.Layout.Lacks]), and which consumers of queues are not
// the ones that are wanted. Processes that serve a queue set its consumers right within seconds.
func (s *Store) Unlike(ctx context.Context, queues []string) (lacks, consumers []string, err error) {
	made := streams.LayoutOf(s.log.CachedInfo().Config)
	var are []jetstream.StreamConfig
	for _, want := range made.Streams() {
		is, wrong := s.JS.Stream(ctx, want.Name)
		if wrong == nil {
			are = append(are, is.CachedInfo().Config)
		} else if !errors.Is(wrong, jetstream.ErrStreamNotFound) {
			err = errors.Join(err, fmt.Errorf("stream %s: %w", want.Name, wrong))
		}
	}
	for _, queue := range queues {
		lanes, wrong := s.under(ctx, queue)
		err = errors.Join(err, wrong)
		for _, l := range lanes {
			what, wrong := s.foreign(ctx, l)
			if err = errors.Join(err, wrong); what != "" {
				consumers = append(consumers, names.LaneConsumer(l)+": "+what)
			}
		}
	}
	return made.Lacks(are), consumers, err
}

const (
	// checkEvery is how often a worker compares consumers with those that it wants. Who waits at one
	// hears at once when it is deleted, but not when it is changed.
	checkEvery = 3 * time.Second
	// checkedAtOnce is how many it compares then.
	checkedAtOnce = 4
)

// compare compares some consumers, each time the next ones, with those that are wanted. The server may have
// dropped the requests to one that is made again, and never said so.
func (o *offers) compare(ctx context.Context, from int) (next int) {
	all := o.all()
	for i := range min(checkedAtOnce, len(all)) {
		if src := all[(from+i)%len(all)]; o.revive(ctx, src) {
			src.pull.Renew()
		}
	}
	return from + checkedAtOnce
}

// proven returns an error unless the consumers of all queues are those that are wanted.
func (o *offers) proven(ctx context.Context) error {
	for _, src := range o.all() {
		if src.maker == maker(o.own) {
			continue
		}
		made, err := src.ensure(ctx)
		if made != "" {
			src.pull.Renew()
		}
		if err != nil && !errors.Is(err, errRemoved) {
			return err
		}
	}
	return nil
}
