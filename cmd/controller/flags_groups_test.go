package controller

import (
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/cmd/exit"
)

func TestGroupFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		code  int
		keeps bool
	}{
		"none":                       {},
		"a limit":                    {args: []string{"--volume-group-max-volumes=1000"}},
		"no volumes":                 {args: []string{"--volume-group-max-volumes=0"}, code: exit.Usage},
		"too many":                   {args: []string{"--volume-group-max-volumes=1001"}, code: exit.Usage},
		"refuse":                     {args: []string{"--volume-group-delete=refuse-nonempty"}, keeps: true},
		"delete":                     {args: []string{"--volume-group-delete=with-volumes"}},
		"another policy of deleting": {args: []string{"--volume-group-delete=never"}, code: exit.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			var o groupFlags
			flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
			o.add(flags)
			require.NoError(t, flags.Parse(tc.args))
			err := o.check()
			require.Equal(t, tc.code, exit.Code(err), err)
			require.Equal(t, tc.keeps, err == nil && o.keepsVolumes())
		})
	}
}
