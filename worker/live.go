package worker

import (
	"context"
	"fmt"
	"maps"
	"time"

	"millrace/task/output"
	"millrace/task/value"
)

// livePause is how often an attempt's progress is stored at most: only the latest report of each
// pause is stored, so that no program floods the log.
const livePause = time.Second

// standing is the progress that an attempt last reported. The output's mu guards it.
type standing struct {
	output.Live
	noted   string    // the message and share that a line of the output has shown
	status  string    // what such a line will show next
	changed bool      // it differs from the stored one
	saved   time.Time // when it was last stored
	begun   time.Time // when the program was ready, a reading of [time.Now]
	timer   *time.Timer
}

// standing returns the attempt's progress; most attempts never report any. The caller holds mu.
func (o *Output) standing() *standing {
	if o.live == nil {
		o.live = new(standing)
	}
	return o.live
}

// Status reports what the task is doing, in words and as a share of the whole from 0 to 1; a share
// below 0 means unknown. It also becomes a line of the output, unless other words follow within a
// second.
func (o *Output) Status(message string, progress float64) {
	o.stand(func(l *standing) {
		l.Message = value.Cut(message, output.MaxLiveMessage)
		l.status = l.Message
		if progress >= 0 {
			l.Progress = &progress
			l.status = fmt.Sprintf("%3.0f%% %s", 100*progress, l.Message)
		}
	})
}

// Progress reports how far the task is, from 0 to 1. An empty message keeps the previous one.
func (o *Output) Progress(share float64, message string) {
	o.stand(func(l *standing) {
		l.Progress = &share
		if message != "" {
			l.Message = value.Cut(message, output.MaxLiveMessage)
		}
	})
}

// Metrics sets figures to their latest values. Names beyond [output.MaxLiveMetrics] are left out,
// and it returns an error.
func (o *Output) Metrics(values map[string]float64) error {
	left := 0
	o.stand(func(l *standing) {
		fresh := maps.Clone(l.Metrics) // the old one may be being stored
		if fresh == nil {
			fresh = make(map[string]float64, len(values))
		}
		for name, v := range values {
			if _, there := fresh[name]; !there && len(fresh) >= output.MaxLiveMetrics {
				left++
				continue
			}
			fresh[name] = v
		}
		l.Metrics = fresh
	})
	if left > 0 {
		return fmt.Errorf("metrics: %d new figures are left out: an attempt has at most %d", left, output.MaxLiveMetrics)
	}
	return nil
}

// Ready reports that the program has set itself up and begins its work.
func (o *Output) Ready() {
	o.stand(func(l *standing) {
		if l.Ready.IsZero() {
			l.Ready, l.begun = o.worker.cfg.Now(), time.Now()
		}
	})
}

// Hearsay tells whether what follows of Status, Progress, Metrics and Insert may be text that the
// program only passes on. Then it is no sign of life but as any output is.
func (o *Output) Hearsay(on bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hearsay = on
}

// lives notes that a message has come. The caller holds mu.
func (o *Output) lives() {
	o.heard = time.Now()
	if !o.hearsay {
		o.beat = o.heard
	}
}

// Heartbeat reports that the program makes progress.
func (o *Output) Heartbeat() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.heard = time.Now()
	o.beat = o.heard
}

// Log adds an entry with a level, such as "warn", and fields, a JSON object or nil.
func (o *Output) Log(level, message string, fields []byte) {
	o.mu.Lock()
	o.said.hear(output.Log, []byte(message), false, time.Now())
	o.mu.Unlock()
	o.add(output.Line{Stream: output.Log, Text: message, Level: level, Fields: fields}, nil)
}

func (o *Output) lastBeat() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.beat
}

// ReadyAt is when the program reported that it began its work: a reading of [time.Now], zero if it
// never did.
func (o *Output) ReadyAt() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live == nil {
		return time.Time{}
	}
	return o.live.begun
}

// stand changes the progress and makes sure that it is stored soon.
func (o *Output) stand(change func(*standing)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.standing()
	change(l)
	o.lives()
	o.saveSoon(l)
}

// saveSoon makes sure that a change is stored soon. The caller holds mu.
func (o *Output) saveSoon(l *standing) {
	l.changed = true
	if l.timer == nil {
		l.timer = time.AfterFunc(max(flushAfter, livePause-time.Since(l.saved)), o.saveLive)
	}
}

// saveLive stores the progress as it is now.
func (o *Output) saveLive() {
	o.saving.Lock() // so that an older one is never stored after a newer one
	defer o.saving.Unlock()
	o.mu.Lock()
	l := o.standing()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	now := l.Live
	now.Task, now.Attempt, now.Epoch, now.At = o.task, o.attempt, o.epoch, o.worker.cfg.Now()
	said, changed := l.status, l.changed
	if said == l.noted {
		said = ""
	} else {
		l.noted = said
	}
	l.changed, l.saved = false, time.Now()
	o.mu.Unlock()
	if said != "" {
		o.Line(output.Status, said)
	}
	if !changed {
		return
	}
	ctx, cancel := context.WithTimeout(o.ctx, liveSaving)
	defer cancel()
	if err := o.worker.outputs.SaveLive(ctx, now); err != nil {
		o.worker.log.Debug("the standing of a task was not stored; the next one is", "error", err, "task", string(o.task))
	}
}

// liveSaving bounds the wait for one progress report to be stored.
const liveSaving = 5 * time.Second

// Phase reports the attempt's current phase, such as [task.PhaseSetup]. It is stored with the
// progress; it counts neither as output nor as a sign of life.
func (o *Output) Phase(phase string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.standing()
	if l.Phase == phase {
		return
	}
	l.Phase, l.PhaseSince = phase, o.worker.cfg.Now()
	o.saveSoon(l)
}
