// Package deploy tests the files that lie beside it: alert rules for Prometheus
// and a dashboard for Grafana. They may ask only for figures that Millrace
// gives, each alert must fire when it should and be silent when all is well, and
// must lead to a section of the documentation that exists.
package deploy
