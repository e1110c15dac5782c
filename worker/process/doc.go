// Package process runs the attempts of tasks as programs: it readies the place of each, starts it
// there by way of package child, hears what it says, and makes an outcome of how it ended.
//
// A task may ask for its attempt to outlive the worker. A second process of this program, the shim,
// then stands beside it ([ShimMain]): it writes down what the attempt says until a worker attends it
// again.
package process
