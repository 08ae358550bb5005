package place

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDevicesOfALab(t *testing.T) {
	p := Paths{Root: "/labs", Number: 1}
	for device, want := range map[string]bool{
		p.Bridge("r"): true, p.Tap("m", 3): true, "hf1a12": true,
		"hf10r1": false, "hf11a": false, "hf1": false, "hf1x": false, "hf1rx": false, "eth0": false, "brl": false,
	} {
		require.Equal(t, want, p.isOwn(device), device)
	}
}

func TestProcessesOfALab(t *testing.T) {
	for path, want := range map[string]bool{"/labs/1": true, "/labs/1/n1/uml": true, "/labs/10/n1/uml": false, "/labs": false} {
		require.Equal(t, want, isBelow(path, "/labs/1"), path)
	}
}

func TestNamesFitTheKernel(t *testing.T) {
	p := PathsOf(Last)
	require.LessOrEqual(t, len(p.Tap("m", 9)), 15, "an interface's name")
	require.LessOrEqual(t, len(p.UML(9)+"/n9/mconsole"), 107, "a socket's path")
}
