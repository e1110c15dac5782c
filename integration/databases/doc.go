// Package databases tests the outbox with real databases, of which it kills one process after the
// other: PostgreSQL, MariaDB and SQLite.
package databases
