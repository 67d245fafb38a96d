# Three quarters of the CPU time is spent below `three`, one quarter below `one`: measured by the thread's own clock, so that it
# holds on a busy machine. Arguments: seconds, and how: `plain`, `recursive` or `threads`.
def clock
  Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
end

def spin(seconds)
  stop = clock + seconds
  total = 0
  while clock < stop
    200.times do |i|
      total += i
    end
  end
  total
end

def three(seconds)
  spin(seconds)
end

def one(seconds)
  spin(seconds)
end

def descend(depth, seconds)
  return three(seconds) if depth == 0
  descend(depth - 1, seconds)
end

def rounds(seconds, deep)
  stop = clock + seconds
  while clock < stop
    deep ? descend(20, 0.03) : three(0.03)
    one(0.01)
  end
end

seconds, how = ARGV[0].to_f, ARGV[1]
if how == "threads"
  # Each has the lock in turn; their clocks stand while they wait for it.
  4.times.map { Thread.new { rounds(seconds / 4, false) } }.each(&:join)
else
  rounds(seconds, how == "recursive")
end
