# payroll: shifts of a company's people are read from a file, and what each is paid is worked out. payroll.rb [repaired]
require 'ostruct'
require 'stringio'

REPAIRED = ARGV[0] == 'repaired'
Shift = Struct.new(:person, :site, :day, :start, :finish, :break_minutes, :kind, keyword_init: true)

class Random32
  def initialize(seed)
    @x = seed
  end

  def below(n)
    @x = (@x * 1664525 + 1013904223) & 0xffffffff
    (@x >> 8) % n
  end
end

SITES = %w[north south harbour depot office].freeze
KINDS = %w[regular regular regular night sunday training].freeze

def time_sheet(rows)
  r = Random32.new(7)
  out = +"person,site,day,start,finish,break,kind\n"
  rows.times do |n|
    start = 300 + r.below(800)
    out << "P#{r.below(900)},#{SITES[r.below(5)]},#{n * 28 / rows + 1},#{start},#{start + 200 + r.below(400)}," \
           "#{r.below(4) * 15},#{KINDS[r.below(6)]}\n"
  end
  out
end

class TimeSheet
  def initialize(text)
    @io = StringIO.new(text)
    @header = @io.gets
  end

  def each
    while (line = @io.gets)
      yield shift_from(line.chomp.split(','))
    end
  end

  # One row as a shift whose fields have names.
  def shift_from(fields)
    person, site, day, start, finish, rest, kind = fields
    values = { person: person, site: site, day: day.to_i, start: start.to_i, finish: finish.to_i,
               break_minutes: rest.to_i, kind: kind }
    REPAIRED ? Shift.new(**values) : OpenStruct.new(values)
  end
end

class Tariff
  RATES = { 'north' => 1420, 'south' => 1390, 'harbour' => 1610, 'depot' => 1350, 'office' => 1500 }.freeze
  EXTRA = { 'regular' => 100, 'night' => 125, 'sunday' => 150, 'training' => 80 }.freeze

  def cents(shift)
    minutes = shift.finish - shift.start - shift.break_minutes
    total = 0
    (shift.start...shift.finish).step(15) do |quarter|
      part = quarter < 360 ? 120 : quarter > 1080 ? 115 : 100
      total += RATES[shift.site] * part / 400
    end
    overtime = minutes > 480 ? (minutes - 480) * RATES[shift.site] / 240 : 0
    (total + overtime) * EXTRA[shift.kind] / 100
  end
end

class Payroll
  attr_reader :pay, :days

  def initialize(tariff)
    @tariff = tariff
    @pay = Hash.new(0)
    @days = Hash.new { |h, k| h[k] = [] }
    @sites = Hash.new(0)
  end

  def add(shift)
    cents = @tariff.cents(shift)
    @pay[shift.person] += cents
    @sites[shift.site] += cents
    @days[shift.person] << shift.day
  end

  def slip(person)
    gross = @pay[person]
    tax = [[0, 100_000, 0], [100_000, 300_000, 20], [300_000, 10**9, 35]].sum do |from, to, percent|
      ([[gross, to].min - from, 0].max * percent) / 100
    end
    format('%-6s %10.2f %10.2f %3d days', person, gross / 100.0, (gross - tax) / 100.0, @days[person].uniq.size)
  end

  def dearest_site
    @sites.max_by { |_, cents| cents }.first
  end
end

payroll = Payroll.new(Tariff.new)
TimeSheet.new(time_sheet(50_000)).each { |shift| payroll.add(shift) }
slips = payroll.pay.keys.sort.map { |person| payroll.slip(person) }
puts "#{slips.size} slips, #{slips.sum(&:size)} characters, #{payroll.pay.values.sum} cents, #{payroll.dearest_site}"
