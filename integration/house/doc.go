// Package house keeps the house plan of docs/architecture.md true: which package may import which,
// which may speak to NATS, which may start processes, and where neither a clock nor a source of
// chance is allowed. It has only tests, which read the sources of the whole module and run none of
// them.
package house
