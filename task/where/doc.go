// Package where says where what waits may lie, and whom it is for: routes of queues, nodes and selectors, the labels by which
// selectors choose nodes, and whose turn it is of several lanes. It knows no task.
package where
