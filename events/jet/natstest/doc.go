// Package natstest holds what tests of package jet and of its subpackages share: servers and connections
// that end with the test, unique ids, and facts. It imports neither jet nor a subpackage that is
// tested with it.
package natstest
