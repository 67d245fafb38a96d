# waiting: a job of another process is looked for every 20 ms; repaired, it says when it is done. blind_waiting.rb [repaired]
REPAIRED = !ARGV.empty?

def compress(number)
  (1..30_000).reduce(number) { |sum, each| (sum * 31 + each) % 1_000_003 }
end

def start_job(number)
  read, write = IO.pipe
  job = fork do
    read.close
    write.puts(compress(number))
  end
  write.close
  [job, read]
end

def wait_for_job(job)
  return Process.wait(job) if REPAIRED

  sleep(0.02) until Process.wait(job, Process::WNOHANG)
end

sum = 0
80.times do |number|
  job, result = start_job(number)
  sum += compress(number + 1)
  wait_for_job(job)
  sum += result.read.to_i
  result.close
end
puts sum
