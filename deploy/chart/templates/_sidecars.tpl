{{- /*
One sidecar of Kubernetes beside a controller. (dict "root" $ "name" NAME "sidecar" VALUES "args" LIST)
It exits when the controller does, and is started again with it.
*/ -}}
{{- define "holdfast.sidecar" -}}
- name: {{ .name }}
  image: {{ include "holdfast.image" (dict "root" .root "image" .sidecar.image) }}
  imagePullPolicy: {{ .root.Values.sidecars.pullPolicy }}
  args:
    - --csi-address=/run/holdfast/csi/csi.sock
    - --leader-election
    - --leader-election-namespace=$(POD_NAMESPACE)
    - --feature-gates=ReleaseLeaderElectionOnExit=true{{ with .gates }},{{ . }}{{ end }}
    - --timeout={{ .sidecar.timeout }}
    - --kube-api-qps={{ .sidecar.kubeAPIQPS }}
    - --kube-api-burst={{ .sidecar.kubeAPIBurst }}
    - --v={{ .root.Values.sidecars.logVerbosity }}
    {{- range .args }}
    - {{ . }}
    {{- end }}
    {{- range .sidecar.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  env:
    {{- include "holdfast.podEnv" .root | nindent 4 }}
    {{- /* The provisioner's name for its own namespace. */}}
    - name: NAMESPACE
      valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
  {{- include "holdfast.restricted" . | nindent 2 }}
  resources:
    {{- toYaml .sidecar.resources | nindent 4 }}
  volumeMounts:
    - {name: csi, mountPath: /run/holdfast/csi}
{{- end }}

{{- define "holdfast.sidecars" -}}
{{- $s := .Values.sidecars }}
{{- /* Volumes of two replicas need other hosts than the first pod's: no strict topology. */}}
{{- $provisioner := list (printf "--worker-threads=%v" $s.provisioner.workerThreads) "--default-fstype=ext4" "--extra-create-metadata" "--strict-topology=false" }}
{{- if $s.provisioner.capacity }}
{{- $provisioner = concat $provisioner (list "--enable-capacity" "--capacity-ownerref-level=1" "--capacity-poll-interval=1m" "--kube-api-capacity-qps=10" "--kube-api-capacity-burst=20") }}
{{- end }}
{{ include "holdfast.sidecar" (dict "root" . "name" "provisioner" "sidecar" $s.provisioner "args" $provisioner) }}
{{- /* A pod that fails over waits for the attacher: where it led on the node that was lost, another one leads within ten seconds. */}}
{{ include "holdfast.sidecar" (dict "root" . "name" "attacher" "sidecar" $s.attacher "args" (list (printf "--worker-threads=%v" $s.attacher.workerThreads) "--reconcile-sync=1m"
    "--leader-election-lease-duration=8s" "--leader-election-renew-deadline=6s" "--leader-election-retry-period=1s")) }}
{{ include "holdfast.sidecar" (dict "root" . "name" "resizer" "sidecar" $s.resizer "args" (list (printf "--workers=%v" $s.resizer.workerThreads))) }}
{{- if include "holdfast.snapshots" . }}
{{ include "holdfast.sidecar" (dict "root" . "name" "snapshotter" "sidecar" $s.snapshotter
    "gates" (printf "CSIVolumeGroupSnapshot=%t" (eq (include "holdfast.groupSnapshots" .) "true"))
    "args" (list (printf "--worker-threads=%v" $s.snapshotter.workerThreads))) }}
{{- end }}
{{- if .Values.snapshotMetadata.enabled }}
- name: snapshot-metadata
  image: {{ include "holdfast.image" (dict "root" . "image" $s.snapshotMetadata.image) }}
  imagePullPolicy: {{ $s.pullPolicy }}
  args:
    - --csi-address=/run/holdfast/csi/csi.sock
    - --port=50051
    - --tls-cert=/etc/holdfast/snapshot-metadata/tls.crt
    - --tls-key=/etc/holdfast/snapshot-metadata/tls.key
    - --v={{ $s.logVerbosity }}
    {{- range $s.snapshotMetadata.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  ports:
    - {name: metadata, containerPort: 50051}
  {{- include "holdfast.restricted" . | nindent 2 }}
  resources:
    {{- toYaml $s.snapshotMetadata.resources | nindent 4 }}
  volumeMounts:
    - {name: csi, mountPath: /run/holdfast/csi}
    - {name: snapshot-metadata, mountPath: /etc/holdfast/snapshot-metadata, readOnly: true}
{{- end }}
{{- if .Values.csiAddons.enabled }}
{{ include "holdfast.csiAddonsSidecar" (dict "root" . "socket" "/run/holdfast/csi/csi.sock" "folder" "/run/holdfast/csi" "volume" "csi" "port" 9070) }}
{{- end }}
{{- end }}

{{- /* The sidecar of CSI-Addons, beside a controller or a node. (dict "root" $ "socket" PATH "folder" PATH "volume" NAME "port" PORT "stagingPath" PATH) */ -}}
{{- define "holdfast.csiAddonsSidecar" -}}
- name: csi-addons
  image: {{ include "holdfast.image" (dict "root" .root "image" .root.Values.sidecars.csiAddons.image) }}
  imagePullPolicy: {{ .root.Values.sidecars.pullPolicy }}
  args:
    - --csi-addons-address=unix://{{ .socket }}
    - --node-id=$(NODE_NAME)
    - --controller-port={{ .port }}
    - --pod=$(POD_NAME)
    - --namespace=$(POD_NAMESPACE)
    - --pod-uid=$(POD_UID)
    - --leader-election-namespace=$(POD_NAMESPACE)
    {{- with .stagingPath }}
    - --stagingpath={{ . }}
    {{- end }}
    {{- range .root.Values.sidecars.csiAddons.extraArgs }}
    - {{ . | quote }}
    {{- end }}
  env:
    {{- include "holdfast.podEnv" .root | nindent 4 }}
    - name: POD_UID
      valueFrom: {fieldRef: {fieldPath: metadata.uid}}
  ports:
    - {name: csi-addons, containerPort: {{ .port }}}
  {{- if .privileged }}
  securityContext:
    privileged: true
    runAsUser: 0
    runAsGroup: 0
    readOnlyRootFilesystem: true
  {{- else }}
  {{- include "holdfast.restricted" . | nindent 2 }}
  {{- end }}
  resources:
    {{- toYaml .root.Values.sidecars.csiAddons.resources | nindent 4 }}
  volumeMounts:
    - {name: {{ .volume }}, mountPath: {{ .folder }}}
{{- end }}
