// Package past remembers nodes, queues and other things about which there are few facts as they were after each of the latest: whoever
// decided something knew them as they were a moment before.
package past
