package params_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/addons/params"
	"github.com/holdfast-storage/holdfast/csi/rpcerr"
)

// S34: a call that is meant for another site is INVALID_ARGUMENT.
func TestS34_CheckRefusesAnotherSite(t *testing.T) {
	for name, tc := range map[string]struct {
		given map[string]string
		want  codes.Code
	}{
		"none":                   {nil, codes.OK},
		"this site":              {map[string]string{"site": "A"}, codes.OK},
		"another site":           {map[string]string{"site": "B"}, codes.InvalidArgument},
		"an empty site":          {map[string]string{"site": ""}, codes.InvalidArgument},
		"one that is known":      {map[string]string{"keep": "false"}, codes.OK},
		"one that is not":        {map[string]string{"kept": "false"}, codes.InvalidArgument},
		"an orchestrator's":      {map[string]string{"replication.storage.k8s.io/x": "y", "csi.storage.kubernetes.io/z": ""}, codes.OK},
		"one that looks like it": {map[string]string{"notk8s.io/x": "y"}, codes.InvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, status.Code(rpcerr.From(params.Check("A", tc.given, "keep"))))
		})
	}
}
