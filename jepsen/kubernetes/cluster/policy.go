package cluster

import (
	"os"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/machine"
)

// policyUnit is the program that puts NetworkPolicies in force, and its version.
const policyUnit, policyVersion = "kube-router", "v2.1.0"

// CanEnforce says why NetworkPolicies cannot be put in force; nil: they can.
func (c Config) CanEnforce() error {
	_, err := os.Stat(c.Program(policyUnit, policyVersion))
	return err
}

// EnforcePolicies has a node put NetworkPolicies in force for its pods.
func (c Config) EnforcePolicies(number int) error {
	return machine.Add(c.Node(number), machine.Unit{Name: policyUnit, Args: []string{
		c.Program(policyUnit, policyVersion), "--kubeconfig=" + c.Kubeconfig("admin"), "--hostname-override=" + NodeName(number),
		"--run-firewall=true", "--run-router=false", "--run-service-proxy=false", "--service-cluster-ip-range=" + services,
	}})
}

// EndPolicies ends that.
func (c Config) EndPolicies(number int) error { return machine.Drop(c.Node(number), policyUnit) }
