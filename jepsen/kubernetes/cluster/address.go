package cluster

import "fmt"

// Control is the address of the machine with the control plane. As all others it is of a network that only the machines have.
const Control = "10.90.0.1"

// Network has all machines, and nothing else.
const Network = "10.90.0.0/24"

const (
	services       = "10.92.0.0/16"
	kubernetesOwn  = "10.92.0.1" // of the service kubernetes.default
	apiServer      = "https://" + Control + ":6443"
	clusterDomain  = "cluster.local"
	podsOfAllNodes = "10.91.0.0/16"
)

// address is that of the node with this number, which counts from one.
func address(number int) string { return fmt.Sprintf("10.90.0.%d", 10+number) }

// pods is the network of a node's pods.
func pods(number int) string { return fmt.Sprintf("10.91.%d.0/24", number) }

// NodeName is the name of a node by its number, which counts from one.
func NodeName(number int) string { return fmt.Sprintf("n%d", number) }
