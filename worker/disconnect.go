package worker

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"millrace/events"
	"millrace/task"
	"millrace/task/value"
	"millrace/worker/claim"
)

// handOverAgain is the pause after a failed try to hand over what was spooled.
const handOverAgain = time.Second

// spill decides where the output of an attempt goes that continues while the server cannot be
// reached: to the store while that answers in time, else to a spool, from which it is handed over
// in order. The holder of Output.flushing owns the fields, unless a field's comment says otherwise.
type spill struct {
	w    *Worker
	out  *Output
	task task.Task // not modified

	file *spool
	// drained closes when the spool is handed over, or when this process cannot hand it over; nil
	// while output goes to the store.
	drained chan struct{}
}

// patience is how long the store may take for a batch before it counts as unreachable.
func (w *Worker) patience() time.Duration { return w.ackWait / 6 }

// keep stores a batch. It tells whether a later try is worthwhile.
func (w *Worker) keep(ctx context.Context, e entry) (again bool, err error) {
	// Storing outlives the stop of its attempt, but not for long.
	ctx, cancel := context.WithTimeout(w.storing(context.WithoutCancel(ctx), false), w.patience())
	defer cancel()
	switch {
	case e.Lines != nil:
		err = w.outputs.Print(ctx, *e.Lines)
	case e.Records != nil:
		err = w.outputs.Keep(ctx, *e.Records)
	}
	return err != nil && (ctx.Err() != nil || errors.Is(err, events.ErrUnknown)), err
}

// put stores or spools a batch. An error means that the batch is lost.
func (s *spill) put(e entry) error {
	if s.drained == nil {
		again, err := s.w.keep(s.out.ctx, e)
		if !again {
			return err
		}
		if openErr := s.open(); openErr != nil {
			return errors.Join(err, openErr)
		}
		s.w.log.Warn("output cannot be stored; spooling it until the server is back", "error", err, "task", string(s.task.ID))
		drained := make(chan struct{})
		s.drained = drained
		s.w.background.Go(func() { s.drain(drained) })
	}
	if ok, err := s.file.add(e, true); ok || err != nil {
		return err
	}
	if e.Records != nil {
		return errors.Join(errSpoolFull, s.file.drop(nil, 1))
	}
	return s.file.drop(e.Lines.Lines, 0)
}

var errSpoolFull = errors.New("the spool is full while the server cannot be reached: give it a higher limit")

func (s *spill) open() (err error) {
	if s.file == nil {
		s.file, err = s.w.spools.create(&s.task)
	}
	return err
}

// drain hands over the spool until it is empty and output can go to the store again, or until the
// worker ends.
func (s *spill) drain(drained chan struct{}) {
	defer close(drained)
	for {
		switch again, err := s.w.step(s.out.ctx, s.file, &s.task); {
		case errors.Is(err, errReported):
			s.out.flushing.Lock()
			s.drained = nil // nothing follows a report
			s.out.flushing.Unlock()
			return
		case errors.Is(err, io.EOF):
			if s.direct() {
				return
			}
		case again:
			if s.out.ctx.Err() != nil {
				return // it stays on the disk for the next process
			}
			sleep(s.out.ctx, handOverAgain)
		case err != nil:
			s.out.fail(err)
		}
	}
}

// direct lets output go to the store again if none was spooled meanwhile.
func (s *spill) direct() bool {
	s.out.flushing.Lock()
	defer s.out.flushing.Unlock()
	if !s.file.empty() {
		return false
	}
	s.drained = nil
	return true
}

// errReported: the next entry of the spool is the report.
var errReported = errors.New("all output is handed over, the report is not")

// step hands over the next entry of a spool. The error is [io.EOF] if there is none and
// [errReported] if the entry is the report. It tells whether a later try is worthwhile.
func (w *Worker) step(ctx context.Context, p *spool, t *task.Task) (again bool, err error) {
	e, after, err := p.next()
	switch {
	case after == 0:
		return false, err
	case e.Report != nil:
		return false, errReported
	case e.Dropped != nil && e.Dropped.Last > 0:
		l := e.Dropped.lines(t)
		e.Lines = &l
	}
	if e.Records != nil {
		e.Records.Word, e.Records.Again = e.Word, true
	}
	if err == nil {
		if again, err = w.keep(ctx, e); again {
			return true, err
		}
	}
	if err != nil {
		w.log.Error("spooled output was lost: it could not be stored", "error", err, "task", string(t.ID))
	}
	if e.Lines != nil {
		err = nil // lost lines fail nothing
	}
	return false, errors.Join(err, p.mark(after))
}

// report writes down how the attempt ended, before the log is told. After an error, only this
// process knows the end.
func (s *spill) report(c task.Command) error {
	s.out.flushing.Lock()
	defer s.out.flushing.Unlock()
	if err := s.open(); err != nil {
		return err
	}
	if _, err := s.file.add(entry{Report: reportOf(c)}, false); err != nil {
		return err
	}
	return s.file.sync()
}

// wait waits until the spool is handed over; false if that is left to the next process.
func (s *spill) wait() bool {
	s.out.flushing.Lock()
	drained := s.drained
	s.out.flushing.Unlock()
	if drained == nil {
		return true
	}
	<-drained
	s.out.flushing.Lock()
	defer s.out.flushing.Unlock()
	return s.drained == nil
}

// done closes the spool. With remove, everything in it is handed over and the file goes.
func (s *spill) done(remove bool) {
	s.out.flushing.Lock()
	defer s.out.flushing.Unlock()
	if s.file == nil {
		return
	}
	if err := s.file.close(remove); err != nil {
		s.w.log.Warn("the spool of an attempt could not be removed", "error", err)
	}
	s.file = nil
}

// reportSpooled is [Worker.report] for an attempt that continues while the server cannot be
// reached: the report is written to the disk first, then offered to the log until the log has it or
// the worker ends, and then once more for as long as any report is.
func (w *Worker) reportSpooled(a *Attempt, c task.Command) {
	s := a.Output.spill
	// If this process dies from now on, the next one knows the end.
	if err := s.report(c); err != nil {
		w.log.Error("the report could not be written to the spool; it is lost if this process ends before the server has it", "error", err, "task", string(a.Task.ID))
	}
	// Output first: a reader that sees the task finished finds all of it.
	handed := s.wait()
	if err := a.Output.failure(); err != nil {
		if f, ok := c.(task.Finish); ok { // records were lost on the way: no success
			c = task.Fail{Epoch: f.Epoch, Class: value.System, Exit: f.Exit, Message: err.Error(), Usage: f.Usage}
		}
	}
	ctx, enough := w.reporting()
	defer enough()
	for pause := 50 * time.Millisecond; handed; pause = min(2*pause, 2*time.Second) {
		offer, _ := a.lease.get()
		told, err := w.tell(ctx, a.Task, offer, c)
		if told {
			s.done(true)
			return
		}
		w.log.Warn("result not recorded yet; it is in the spool; trying again", "error", err, "task", string(a.Task.ID))
		if a.Output.ctx.Err() != nil {
			break
		}
		sleep(a.Output.ctx, pause)
	}
	w.log.Warn("the report stays in the spool; the next worker of this node on this machine hands it over", "task", string(a.Task.ID), "node", string(w.cfg.Node))
	s.done(false)
}

// tell reports to the log once and returns whether the report is settled.
func (w *Worker) tell(ctx context.Context, t task.Task, offer *events.Offer, c task.Command) (bool, error) {
	err := w.protocol.Report(ctx, &t, offer, c)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, claim.ErrNoAttempt), errors.Is(err, task.ErrUnknown):
		w.log.Warn("result came too late, for a log that does not know of it; it is dropped", "error", err, "task", string(t.ID), "epoch", t.Epoch)
		return true, err
	case errors.Is(err, task.ErrFenced), errors.Is(err, task.ErrEnded):
		w.log.Warn("result came too late; it is kept as evidence", "error", err, "task", string(t.ID), "epoch", t.Epoch)
		return true, err
	case errors.Is(err, events.ErrTooLarge), errors.Is(err, task.ErrSteps):
		return w.tell(ctx, t, offer, task.Fail{Epoch: t.Epoch, Class: value.System, Message: err.Error(), Final: true})
	}
	return false, err
}

// handOverLeft hands over what earlier processes of this node have left, until nothing is left or
// ctx ends. It tells whether something remains for a later try.
func (w *Worker) handOverLeft(ctx context.Context) (more bool) {
	locks, err := w.spools.left()
	if err != nil {
		w.log.Warn("what an earlier worker of this node may have left cannot be found", "error", err)
	}
	for _, lock := range locks {
		more = w.handOverFolder(ctx, lock) || more
	}
	return more
}

func (w *Worker) handOverFolder(ctx context.Context, lock *flock.Flock) (more bool) {
	dir := filepath.Dir(lock.Path())
	defer dropFolder(dir, lock)
	files, err := os.ReadDir(dir)
	if err != nil {
		w.log.Warn("what an earlier worker of this node has left cannot be read", "error", err)
	}
	for _, f := range files {
		if f.Name() == lockName {
			continue
		}
		name := filepath.Join(dir, f.Name())
		switch again, err := w.handOverFile(ctx, name); {
		case again:
			more = true
			w.log.Warn("what an earlier worker of this node has left could not be handed over; trying again", "error", err, "file", name)
		case err != nil:
			w.log.Error("what an earlier worker of this node has left stays where it is: remove the file if it is not needed", "error", err, "file", name)
		default:
			w.log.Info("handed over what an earlier worker of this node had left", "file", name)
		}
	}
	return more
}

// handOverFile hands over the output and the report of one attempt and removes its file. It tells
// whether the error may pass.
func (w *Worker) handOverFile(ctx context.Context, name string) (again bool, err error) {
	p, t, err := openSpool(name)
	if err != nil {
		return false, err
	}
	done := false
	defer func() { err = errors.Join(err, p.close(done)) }()
	// A spool that was meant for another log does not concern this one.
	if _, err := w.protocol.Recorder.Load(ctx, t.ID); err != nil {
		return !errors.Is(err, task.ErrUnknown), err
	}
	for {
		again, err := w.step(ctx, p, &t)
		if errors.Is(err, io.EOF) || errors.Is(err, errReported) {
			break
		}
		if again || ctx.Err() != nil {
			return true, errors.Join(err, ctx.Err())
		}
	}
	e, after, err := p.next()
	if after > 0 && err == nil && e.Report != nil {
		if c := e.Report.command(); c != nil {
			told, err := w.tell(ctx, t, &events.Offer{Lease: nobody{}}, c)
			if !told {
				return true, err
			}
		}
	}
	done = true
	return false, nil
}

// watchLeft hands over in the background what could not be handed over at the start.
func (w *Worker) watchLeft(ctx context.Context) {
	for more := true; more && ctx.Err() == nil; {
		sleep(ctx, 10*handOverAgain)
		if ctx.Err() == nil {
			more = w.handOverLeft(ctx)
		}
	}
}
