# What is measured, as a part of guest.sh.
run vitalfew doctor
for program in split split-signed split-static split-frames walks deep; do
	twice $program -F 250 -- /programs/$program $(cat /programs/$program.arguments)
done
run vitalfew report --tree /tmp/split.vf
run vitalfew report /tmp/walks.vf
twice flat --no-stacks -F 250 -- /programs/split 300
twice pointers --call-graph fp -F 250 -- /programs/split-frames 300
twice copies --call-graph dwarf -F 100 -- /programs/split 300
/programs/split 100000 &
run vitalfew record -F 250 --for 5s -o /tmp/process.vf -p $!
run vitalfew report --json /tmp/process.vf
kill $!
run vitalfew record --off-cpu -F 250 -o /tmp/off.vf -- /programs/walks
run vitalfew annotate three /tmp/split.vf
run vitalfew record --registers -o /tmp/registers.vf -- /programs/split 30
run vitalfew interference -- /programs/split 30
run vitalfew causal run --for 20s -- /programs/split 300
if [ -x /usr/bin/python3.13 ]; then
	twice python -F 250 -- /usr/bin/python3.13 /programs/split.py
	run vitalfew report /tmp/python.vf
fi
