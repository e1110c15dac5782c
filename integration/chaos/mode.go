package chaos

import (
	"fmt"
	"time"
)

// Kind is a way in which a link misbehaves.
type Kind uint8

// The kinds of links.
const (
	// LinkUp passes everything on.
	LinkUp Kind = iota
	// LinkCut resets every connection, and each new one at once.
	LinkCut
	// LinkBlackhole passes nothing on, and neither end notices. What was sent meanwhile arrives
	// afterwards, as TCP would send it again.
	LinkBlackhole
	// LinkHalfOpen resets the server's end of every connection and keeps the client's, whose data is
	// discarded. The clients' ends are reset when the mode changes.
	LinkHalfOpen
	// LinkDelay passes everything on after Mode.Delay, each way.
	LinkDelay
	// LinkThrottle passes on at most Mode.Rate bytes in a second, each way of each connection.
	LinkThrottle
	// LinkDrop loses the Mode.Every-th chunk of a connection, and resets the connection.
	LinkDrop
	// LinkStall holds each Mode.Every-th chunk of a connection up for Mode.Delay, and with it what
	// follows: the effect of a link that loses packets, over TCP.
	LinkStall
	// LinkLose omits each Mode.Every-th chunk of a connection, and neither end notices. No TCP does
	// that, but a broken machine between the ends may: messages are missing, or cut.
	LinkLose
)

var kindNames = []string{"up", "cut", "blackhole", "half-open", "delay", "throttle", "drop", "stall", "lose"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Mode is how a link behaves. The zero value is a good link.
type Mode struct {
	Kind Kind
	// LinkDelay is by how much everything is late, above 0 if Kind is Delay, or by how much some chunks
	// are if it is Stall.
	Delay time.Duration
	// Rate is in bytes per second, above 0 if Kind is Throttle.
	Rate int
	// Every says which chunk (the result of one read) is lost or late, at least 2 if Kind is Drop,
	// LinkStall or Lose. With Drop, 2 barely lets a connection begin.
	Every int
}

func (m Mode) validate() error {
	switch {
	case (m.Kind == LinkDelay || m.Kind == LinkStall) && m.Delay <= 0:
		return fmt.Errorf("proxy: Delay is %v, want more than 0", m.Delay)
	case m.Kind == LinkThrottle && m.Rate <= 0:
		return fmt.Errorf("proxy: Rate is %d, want more than 0", m.Rate)
	case (m.Kind == LinkDrop || m.Kind == LinkStall || m.Kind == LinkLose) && m.Every < 2:
		return fmt.Errorf("proxy: Every is %d, want at least 2", m.Every)
	}
	return nil
}
