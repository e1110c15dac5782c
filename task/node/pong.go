package node

import "time"

// Pong is what a node's process answers when a client asks it directly. The node's state in the log
// may be older, or that of another process.
type Pong struct {
	// Node is the node's id, Session that of its process, and Version the program's.
	Node    ID     `json:"node"`
	Session string `json:"session"`
	Version string `json:"version,omitempty"`
	// Serving says that it asks for work.
	Serving bool `json:"serving"`
	// Running is how many tasks it runs. Slots is how many it can run at once.
	Running int `json:"running"`
	Slots   int `json:"slots"`
	// LastBeat is when its last heartbeat was stored; zero for never.
	LastBeat time.Time `json:"last_beat,omitzero"`
}
