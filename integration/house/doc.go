// Package house keeps the house plan of docs/architecture.md true: which package
// may import which, who may speak to NATS, who may start processes, and where
// no clock and no chance is allowed. It has nothing but tests, which read the
// sources of the whole module and run none of them.
package house
