package node

import "time"

// Pong is the answer of a node's process when it is asked over the wire. The log's state of the
// node may be older, or of another process.
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
