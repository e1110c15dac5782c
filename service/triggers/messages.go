package triggers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"millrace/events"
	"millrace/events/jet/pubsub"
	"millrace/events/submit"
	"millrace/service/answers"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/condition"
	"millrace/task/job"
	"millrace/task/schedule"
)

// Messages makes the tasks that follow from messages of NATS. All servers do, and share the messages.
type Messages struct {
	// Look lets it look at the present.
	Look func(ctx context.Context, look func(context.Context, *answers.Sight) error) error
	// Listen passes the messages of a feed to take, as [pubsub.Feed.Run] does.
	Listen func(ctx context.Context, f *pubsub.Feed, take pubsub.Take) error
	// Maker makes the tasks.
	Maker *submit.Maker
	// Every is the interval of looks at the definitions. Default 500ms.
	Every time.Duration
	Log   *slog.Logger
}

// source is what a job listens to.
type source struct{ job, stream, subject string }

// Run listens until ctx ends.
func (m *Messages) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	heard := map[source]context.CancelCauseFunc{}
	var jobs known
	every := cmp.Or(m.Every, 500*time.Millisecond)
	answers.Again(ctx, every, m.Log, "it is not known which jobs follow from messages; trying again", func(looking context.Context) error {
		return m.Look(looking, func(looking context.Context, s *answers.Sight) error {
			if changed, err := jobs.read(looking, s); err != nil || !changed {
				return err
			}
			wanted := map[source]bool{}
			for i := range jobs.all {
				j := &jobs.all[i]
				if !j.On.Hears() {
					continue
				}
				of := source{j.Name, j.On.Stream, j.On.Subject}
				wanted[of] = true
				if heard[of] != nil {
					continue
				}
				own, stop := context.WithCancelCause(ctx)
				heard[of] = stop
				feed := &pubsub.Feed{Job: of.job, Stream: of.stream, Subject: of.subject, Since: j.Changed, Log: m.Log}
				all.Go(func() {
					answers.Again(own, 5*time.Second, m.Log, "messages for job "+of.job+" cannot be heard; trying again", func(ctx context.Context) error {
						return m.Listen(ctx, feed, func(ctx context.Context, is *pubsub.Message) (any, error) { return m.take(ctx, of.job, is) })
					})
				})
			}
			for of, stop := range heard {
				if !wanted[of] && !jobs.partly { // else it may be a job that cannot be read at present
					stop(pubsub.ErrUnwanted)
					delete(heard, of)
				}
			}
			return nil
		})
	})
	for _, stop := range heard {
		stop(nil)
	}
	return nil
}

// take makes the task of a job that follows from a message; without one, the answer is nil. The error wraps
// [pubsub.ErrNever] if none can follow.
func (m *Messages) take(ctx context.Context, name string, is *pubsub.Message) (any, error) {
	of, _, err := m.Maker.Store.JobAt(ctx, name, 0)
	if err != nil {
		return nil, err
	}
	made, err := heard(&of, is, m.Maker.Rec.Now())
	receipt, err := submitted(ctx, m.Maker, made, err)
	switch settled(m.Log, err, "a message", "job", name, "subject", is.Subject, "stream", is.Stream, "sequence", is.Seq); {
	case errors.Is(err, condition.ErrUnmet):
		return nil, nil
	case refused(err):
		return nil, fmt.Errorf("%w: %w", pubsub.ErrNever, err)
	}
	return receipt, err
}

// submitted makes the task of a submission that follows from something; err is that with which it was made.
func submitted(ctx context.Context, maker *submit.Maker, made birth.Submission, err error) (submit.Receipt, error) {
	switch {
	case errors.Is(err, condition.ErrUnmet):
		return submit.Receipt{}, err
	case err != nil:
		return submit.Receipt{}, fmt.Errorf("%w: %w", submit.ErrInvalid, err)
	}
	return maker.Submit(ctx, made)
}

// settled tells whether nothing is to follow from something, and says so in the log.
func settled(log *slog.Logger, err error, from string, about ...any) bool {
	switch {
	case errors.Is(err, condition.ErrUnmet):
		log.Debug("no task follows from "+from+", for on.when does not hold", about...)
	case refused(err):
		log.Warn("no task follows from "+from, append(about, "error", err)...)
	default:
		return false
	}
	return true
}

// refused tells whether a submission that fails so fails again.
func refused(err error) bool {
	for _, is := range []error{submit.ErrInvalid, submit.ErrOther, birth.ErrNoTask, events.ErrForgotten, events.ErrTooLarge} {
		if errors.Is(err, is) {
			return true
		}
	}
	return errors.As(err, new(*events.Taken))
}

// heard is the submission of a job that follows from a message.
func heard(of *job.Job, m *pubsub.Message, now time.Time) (birth.Submission, error) {
	is := condition.Message{Subject: m.Subject, Stream: m.Stream, Sequence: m.Seq, Stored: m.At, Headers: m.Header}
	s, err := condition.Triggered(of, m.Data, is)
	if err != nil {
		return s, err
	}
	if of.Params.Find(condition.MessageName) != nil {
		if s.Params[condition.MessageName], err = json.Marshal(is); err != nil {
			return s, err
		}
	}
	s.Origin = task.Origin{Trigger: task.TriggerMessage, Tick: cmp.Or(m.At, now), MadeBy: "a message on " + m.Subject}
	if m.Stream == "" {
		err = answers.Once(&s, of, m.ID, now)
		return s, err
	}
	s.Origin.MadeBy = fmt.Sprintf("message %d of stream %s, made %s", m.Seq, m.Stream, m.Made.UTC().Format(time.RFC3339Nano))
	s.ID = schedule.FollowingID(of.Name, &s.Origin)
	return s, nil
}
