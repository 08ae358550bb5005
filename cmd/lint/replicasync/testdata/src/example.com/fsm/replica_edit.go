package fsm

func decides(v *Volume) bool { return v.Replicas[0].UpToDate }
