// Package external tests what only programs of others can tell. Databases, of which it kills one
// process after the other, show what the outbox keeps: PostgreSQL, MariaDB and SQLite. Prometheus's
// own engine shows that the alert rules and the dashboard of examples/monitoring ask only for figures
// that Millrace gives, and that each alert fires when it should and leads to a section of docs.
package external
