package term

import (
	"fmt"
	"io"
	"sync"
	"time"

	"millrace/task"
)

// Progress is a line on a terminal that says what is awaited and for how long. Without a terminal
// it does nothing.
type Progress struct {
	w       io.Writer // nil without a terminal
	lines   io.Writer // takes the program's own reports as lines instead; nil for none
	columns int
	done    chan struct{}
	ended   sync.WaitGroup
	once    sync.Once

	mu    sync.Mutex // guards what follows, and writing to w
	text  string
	since time.Time
	drawn bool
	line  string    // what was last drawn
	drew  time.Time // and when
	hold  bool      // a line of output is incomplete: nothing may be drawn
	told  time.Time // when the last line was written
}

// Progress starts a line on stderr, if that is a terminal.
func (s *Streams) Progress() *Progress {
	p := &Progress{done: make(chan struct{})}
	if !Terminal(s.Errs) {
		if s.Demonstrating {
			p.lines = s.Errs
		}
		return p
	}
	p.w, p.columns = Unfiltered(s.Errs), Width(s.Errs)
	p.ended.Go(func() {
		ticker := time.NewTicker(redrawEvery)
		defer ticker.Stop()
		for {
			select {
			case <-p.done:
				return
			case <-ticker.C:
				p.mu.Lock()
				p.redraw()
				p.mu.Unlock()
			}
		}
	})
	return p
}

// Say sets the line's text; the time beside it counts from t's current state. For an ended task it
// does nothing.
func (p *Progress) Say(text string, t task.Task) {
	if t.State.Terminal() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.since = text, t.Since
	p.draw()
}

// More adds the program's own progress report.
func (p *Progress) More(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
	p.draw()
	if now := time.Now(); p.lines != nil && !p.hold && now.Sub(p.told) >= toldEvery {
		fmt.Fprintf(p.lines, "progress: %s\n", Printable(text))
		p.told = now
	}
}

// toldEvery is the shortest time between lines about progress.
const toldEvery = 300 * time.Millisecond

// redrawEvery is how soon the line returns after output that came too fast to draw it in between.
const redrawEvery = 100 * time.Millisecond

// redraw draws the line if it is missing or has changed.
func (p *Progress) redraw() {
	if !p.drawn || p.words() != p.line {
		p.draw()
	}
}

func (p *Progress) words() string {
	line := fmt.Sprintf("%s · %s", Printable(p.text), max(time.Since(p.since), 0).Truncate(time.Second))
	if p.columns > 0 {
		line = Cut(line, p.columns-1)
	}
	return line
}

func (p *Progress) draw() {
	if p.w == nil || p.hold || p.text == "" {
		return
	}
	p.line, p.drew, p.drawn = p.words(), time.Now(), true
	fmt.Fprintf(p.w, "\r\x1b[K\x1b[2m%s\x1b[0m", p.line)
}

// Around removes the line, calls write, which prints to the same terminal and tells whether its
// last line is complete, and draws the line again, unless it was drawn just now: during much output
// it would only flicker.
func (p *Progress) Around(write func() (complete bool, err error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
	complete, err := write()
	if p.hold = !complete; time.Since(p.drew) >= redrawEvery {
		p.draw()
	}
	return err
}

// Clear removes the line until it is drawn again.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase()
}

func (p *Progress) erase() {
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.drawn = false
	}
}

// Stop removes the line for good. It may be called again.
func (p *Progress) Stop() {
	p.once.Do(func() { close(p.done) })
	p.ended.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = ""
	p.erase()
}
