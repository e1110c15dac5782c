// Package placement describes where offers wait and for which nodes: routes of queues, nodes and
// selectors, the labels by which selectors choose nodes, and the order in which lanes take turns.
// It knows nothing of tasks.
package placement
